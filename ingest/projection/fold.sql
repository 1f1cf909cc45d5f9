-- How one batch of events becomes rows. `batch` is the batch as it came from the log, old versions brought to the newest;
-- each block is one statement; one with `of:` is run where the batch has an event of those types. A missing member that is
-- needed fails NOT NULL and makes the event a dead letter.

-- name: counts
INSERT INTO event_type_count
SELECT type, count(*), min(position), max(position), type IN (SELECT type FROM known_type) FROM arrived GROUP BY type ORDER BY type
ON CONFLICT (type) DO UPDATE SET
    events = events + excluded.events, last_position = excluded.last_position;

-- name: links
INSERT INTO link
SELECT min(position), lower(hex(arg_min(chain, position))) FROM arrived
WHERE position // 1024 > $before // 1024 GROUP BY position // 1024 ORDER BY 1;

-- name: moments
INSERT INTO moment SELECT position, recorded_at, type FROM arrived
WHERE position NOT IN (SELECT position FROM letter)
  AND type NOT IN ('assay.measurement.recorded.v1', 'assay.measurement.failed.v1', 'assay.test.reported.v1')
ORDER BY position;

-- name: aliases
INSERT INTO alias
SELECT position, event_id, source, time, recorded_at, d.kind, d.alias, d.canonical, d.reason FROM (
    SELECT *, from_json(body, '{"data": {"kind": "VARCHAR", "alias": "VARCHAR", "canonical": "VARCHAR", "reason": "VARCHAR"}}').data AS d
    FROM batch WHERE type = 'assay.alias.declared.v1'
) ORDER BY position;

-- name: seen
-- The facts of the batch: parts as text, figures typed. A text that is not there is empty.
-- `figures`: how many numbers the metrics hold, going by the colons of their members. Where as many were read, so was the
-- whole text; where not, or where it is `odd`, something is not a number where one belongs, or a member that nobody knows.
SELECT position, event_id, type, time, recorded_at, source, attestation,
    model_sent, hardware_sent, workload_sent, execution_sent, observed_sent, run_sent, environment_sent, provenance_sent,
    validity_sent,
    metrics, samples, odd, figures,
    l.mean, l.min, l.max, l.stddev, l.p50, l.p90, l.p95, l.p99, l.n,
    ci.p50[1] AS p50_low, ci.p50[2] AS p50_high, ci.mean[1] AS mean_low, ci.mean[2] AS mean_high, other_ci95,
    m.* EXCLUDE (latency_ms),
    samples_n, c.stopped_by, c.other_load, c.clock_before_hz, c.clock_after_hz, c.energy AS energy_reading
FROM (
    SELECT *,
        CASE WHEN coalesce(ci.p90, ci.p95, ci.p99, ci.min, ci.max, ci.stddev) IS NOT NULL
            THEN json_extract_string(metrics, '$.latency_ms.ci95') END AS other_ci95,
        s.n AS samples_n,
        contains(metrics, '",') OR contains(metrics, '"}') OR contains(metrics, 'true') OR contains(metrics, 'false')
            OR (l IS NOT NULL AND NOT contains(metrics, '"latency_ms":{'))
            OR (ci IS NOT NULL AND NOT contains(metrics, '"ci95":{'))
            OR coalesce(len(ci.p50), 2) <> 2 OR coalesce(len(ci.mean), 2) <> 2
            OR (samples IS NOT NULL
                AND NOT coalesce(s.n > 0 AND regexp_full_match(s.digest, 'sha256:[0-9a-f]{64}'), false)) AS odd,
        (strlen(metrics) - strlen(replace(metrics, '":', ''))) // 2 - (l IS NOT NULL)::INT - (ci IS NOT NULL)::INT
            - CASE WHEN contains(metrics, 'null')
                THEN (strlen(metrics) - strlen(replace(metrics, 'null', ''))) // 4 ELSE 0 END AS figures
    FROM (SELECT *, m.latency_ms AS l, m.latency_ms.ci95 AS ci FROM (
        SELECT position, event_id, type, source, attestation, time, recorded_at,
            coalesce(j[1]::VARCHAR, '') AS model_sent, coalesce(j[2]::VARCHAR, '') AS hardware_sent,
            coalesce(j[3]::VARCHAR, '') AS workload_sent, coalesce(j[4]::VARCHAR, '') AS execution_sent,
            coalesce(j[5]::VARCHAR, '') AS observed_sent, coalesce(j[6]::VARCHAR, '') AS run_sent,
            coalesce(j[7]::VARCHAR, '') AS environment_sent, coalesce(j[8]::VARCHAR, '') AS provenance_sent,
            coalesce(j[9]::VARCHAR, '') AS validity_sent, j[10]::VARCHAR AS metrics, j[11]::VARCHAR AS samples,
            from_json(j[11], '{"digest": "VARCHAR", "n": "BIGINT"}') AS s,
            from_json(j[12], '{"stopped_by": "VARCHAR", "other_load": "DOUBLE", "clock_before_hz": "DOUBLE",
                "clock_after_hz": "DOUBLE", "energy": "JSON"}') AS c,
            from_json(j[10], '{
                "latency_ms": {"mean": "DOUBLE", "min": "DOUBLE", "max": "DOUBLE", "stddev": "DOUBLE", "p50": "DOUBLE",
                    "p90": "DOUBLE", "p95": "DOUBLE", "p99": "DOUBLE", "n": "BIGINT",
                    "ci95": {"p50": ["DOUBLE"], "mean": ["DOUBLE"], "p90": ["DOUBLE"], "p95": ["DOUBLE"], "p99": ["DOUBLE"],
                        "min": ["DOUBLE"], "max": ["DOUBLE"], "stddev": ["DOUBLE"]}},
                "throughput_per_s": "DOUBLE", "tokens_per_s": "DOUBLE", "ttft_ms": "DOUBLE", "tpot_ms": "DOUBLE",
                "realtime_factor": "DOUBLE", "load_ms": "DOUBLE", "convert_ms": "DOUBLE", "compile_ms": "DOUBLE",
                "first_run_ms": "DOUBLE", "preprocess_ms": "DOUBLE", "postprocess_ms": "DOUBLE", "forward_ms": "DOUBLE",
                "loss_ms": "DOUBLE", "backward_ms": "DOUBLE", "optimizer_ms": "DOUBLE", "peak_memory_bytes": "BIGINT",
                "mean_memory_bytes": "BIGINT", "device_memory_bytes": "BIGINT", "kv_cache_bytes": "BIGINT", "energy_j": "DOUBLE",
                "power_w": "DOUBLE", "energy_per_item_j": "DOUBLE", "energy_per_token_j": "DOUBLE",
                "energy_above_idle_j": "DOUBLE", "idle_power_w": "DOUBLE", "device_time_ms": "DOUBLE", "utilisation": "DOUBLE",
                "goodput_per_s": "DOUBLE", "roofline_share": "DOUBLE"}') AS m
        FROM (
            SELECT * EXCLUDE (body), json_extract(body, [
                '$.data.model', '$.data.hardware', '$.data.workload', '$.data.execution', '$.data.observed', '$.data.run_id',
                '$.data.environment', '$.data.provenance', '$.data.validity', '$.data.metrics', '$.data.samples',
                '$.data.conditions']) AS j
            FROM batch
            WHERE type IN ('assay.measurement.recorded.v1', 'assay.measurement.failed.v1', 'assay.test.reported.v1')
        )
    ))
);

-- name: known_subjects
SELECT met.key, subject.id FROM met JOIN subject USING (model, hardware, workload_id, execution_id);

-- name: subjects
INSERT INTO subject
SELECT met.position, met.model, met.hardware, met.workload_id, met.execution_id,
    configuration_key(x.execution::VARCHAR, h.hardware_id, h.hardware_count, m.model_id, w.workload::VARCHAR),
    m.* EXCLUDE (id, model_sent), h.* EXCLUDE (id, hardware_sent), w.* EXCLUDE (id, workload_sent, workload),
    x.* EXCLUDE (id, execution_sent, observed_sent, execution), w.workload, x.execution
FROM met
JOIN model_part AS m ON met.model = m.id
JOIN hardware_part AS h ON met.hardware = h.id
JOIN workload_part AS w ON met.workload_id = w.id
JOIN execution_part AS x ON met.execution_id = x.id
ORDER BY met.position;

-- name: tests
INSERT INTO test
SELECT tested.position, event_id::UUID, time, recorded_at, subject, context,
    CASE type WHEN 'assay.test.reported.v1' THEN 'test' ELSE 'failure' END,
    CASE type WHEN 'assay.test.reported.v1' THEN coalesce(d.test, 'verify') END,
    d.outcome, d.stage, d.failure.error, d.failure.message, d.remedy, d.checks
FROM (
    SELECT position, event_id, type, time, recorded_at, from_json(body, '{"data": {
        "test": "VARCHAR", "outcome": "VARCHAR", "stage": "VARCHAR", "failure": {"error": "VARCHAR", "message": "VARCHAR"},
        "remedy": "VARCHAR", "checks": "JSON"}}').data AS d
    FROM batch WHERE type IN ('assay.test.reported.v1', 'assay.measurement.failed.v1')
) JOIN tested USING (position) ORDER BY tested.position;

-- name: naming
-- Retractions that name one of a few facts or their runs.
SELECT 1 FROM retraction
WHERE list_contains($runs, target_run_id) OR list_contains($events::UUID[], try_cast(target_event_id AS UUID)) LIMIT 1;

-- name: voids
-- Rows above `low` that a retraction names, one for each retraction. Plain joins on numbers: DuckDB 2.0 ends with an
-- internal error where text is carried through a join over a union.
CREATE OR REPLACE TEMPORARY TABLE changed AS
WITH named AS (
    SELECT *, id_high(event_id) AS id_high, id_low(event_id) AS id_low FROM (
        SELECT try_cast(target_event_id AS UUID) AS event_id, position AS since FROM retraction
        WHERE target_event_id IS NOT NULL
    )
), ended AS (
    SELECT context.id, retraction.position AS since
    FROM context JOIN retraction ON context.run_id = retraction.target_run_id
), ended_kernels AS (
    SELECT kernel_table.position, retraction.position AS since
    FROM kernel_table JOIN retraction ON kernel_table.run_id = retraction.target_run_id
), others AS (
    SELECT position, event_id FROM variant UNION ALL SELECT position, event_id FROM quality_comparison
    UNION ALL SELECT position, event_id FROM endpoint_change UNION ALL SELECT position, event_id FROM delivery
), ended_others AS (
    SELECT variant.position, retraction.position AS since
    FROM variant JOIN retraction ON variant.run_id = retraction.target_run_id
    UNION ALL
    SELECT quality_comparison.position, retraction.position
    FROM quality_comparison JOIN retraction ON quality_comparison.run_id = retraction.target_run_id
), found AS (
    SELECT one.position, one.subject, true AS measured, named.since
    FROM measurement AS one JOIN named ON one.id_high = named.id_high AND one.id_low = named.id_low WHERE one.position > $low
    UNION ALL
    SELECT one.position, one.subject, true, ended.since
    FROM measurement AS one JOIN ended ON one.context = ended.id WHERE one.position > $low
    UNION ALL
    SELECT one.position, one.subject, false, named.since
    FROM test AS one JOIN named ON one.event_id = named.event_id WHERE one.position > $low
    UNION ALL
    SELECT one.position, one.subject, false, ended.since
    FROM test AS one JOIN ended ON one.context = ended.id WHERE one.position > $low
    UNION ALL
    SELECT one.position, NULL, false, named.since
    FROM kernel_table AS one JOIN named ON one.event_id = named.event_id WHERE one.position > $low
    UNION ALL
    SELECT position, NULL, false, since FROM ended_kernels WHERE position > $low
    UNION ALL
    SELECT one.position, NULL, false, named.since
    FROM others AS one JOIN named ON one.event_id = named.event_id WHERE one.position > $low
    UNION ALL
    SELECT position, NULL, false, since FROM ended_others WHERE position > $low
)
SELECT DISTINCT position, subject, measured, since FROM found ANTI JOIN voided USING (position, since);

-- name: void
INSERT INTO voided SELECT position, since, NULL FROM changed ORDER BY position, since;

-- name: undone
-- Rows of a retraction that another retraction names: the first one says until when.
CREATE OR REPLACE TEMPORARY TABLE undone AS
SELECT voided.position, voided.since, undo.until FROM voided JOIN (
    SELECT taken.position AS since, min(undo.position) AS until
    FROM retraction AS taken JOIN retraction AS undo ON undo.target_event_id = taken.event_id GROUP BY taken.position
) AS undo USING (since) WHERE voided.until IS NULL;

-- name: restore
UPDATE voided SET until = undone.until FROM undone WHERE voided.position = undone.position AND voided.since = undone.since;
INSERT INTO changed SELECT position, subject, true, since FROM undone JOIN measurement USING (position);

-- name: posted
-- Ids in events other than facts; those of facts are read with their parts.
SELECT DISTINCT d.model.id, d.base.id, d.hardware.id FROM (
    SELECT from_json(body,
        '{"data": {"model": {"id": "VARCHAR"}, "base": {"id": "VARCHAR"}, "hardware": {"id": "VARCHAR"}}}').data AS d
    FROM batch
    WHERE type IN ('assay.model.described.v1', 'assay.model.traced.v1', 'assay.hardware.described.v1',
                   'assay.price.published.v1', 'assay.kernel.measured.v1', 'assay.variant.created.v1',
                   'assay.quality.measured.v1', 'assay.endpoint.changed.v1', 'assay.delivery.observed.v1')
);

-- name: runs
-- of: assay.run.started.v1
INSERT INTO run
SELECT position, event_id, source, attestation, time, recorded_at, d.run_id, d.kind, d.hardware, d.environment.fingerprint, d.plan,
    d.planned::BIGINT, d.provenance.origin, d.provenance.source, d.provenance.reference, d.provenance.licence,
    d.context.repository, d.context.branch, d.context.commit, d.context.pull_request, d.context.job,
    d.context.attempt::BIGINT
FROM (
    SELECT *, from_json(body, '{"data": {"run_id": "VARCHAR", "kind": "VARCHAR", "hardware": "JSON",
        "environment": {"fingerprint": "VARCHAR"}, "plan": "JSON", "planned": "VARCHAR",
        "provenance": {"origin": "VARCHAR", "source": "VARCHAR", "reference": "VARCHAR", "licence": "VARCHAR"},
        "context": {"repository": "VARCHAR", "branch": "VARCHAR", "commit": "VARCHAR", "pull_request": "VARCHAR",
        "job": "VARCHAR", "attempt": "VARCHAR"}}}').data AS d
    FROM batch WHERE type = 'assay.run.started.v1'
) ORDER BY position;

-- name: run_ends
-- of: assay.run.finished.v1
INSERT INTO run_end
SELECT position, event_id, source, time, recorded_at, d.run_id, d.outcome, d.measured::BIGINT, d.failed::BIGINT,
    d.tests::BIGINT, d.reason
FROM (
    SELECT *, from_json(body, '{"data": {"run_id": "VARCHAR", "outcome": "VARCHAR", "measured": "VARCHAR",
        "failed": "VARCHAR", "tests": "VARCHAR", "reason": "VARCHAR"}}').data AS d
    FROM batch WHERE type = 'assay.run.finished.v1'
) ORDER BY position;

-- name: models
-- of: assay.model.described.v1
INSERT INTO model
SELECT position, event_id, source, time, recorded_at, model_name.canonical, d.model.id, d.model.category, d.model.family,
    d.model.architecture, d.model.task, d.model.revision, d.model.parameters::BIGINT, d.aliases, d.config
FROM (
    SELECT *, from_json(body, '{"data": {"model": {"id": "VARCHAR", "category": "VARCHAR", "family": "VARCHAR",
        "architecture": "VARCHAR", "task": "VARCHAR", "revision": "VARCHAR", "parameters": "VARCHAR"},
        "aliases": "JSON", "config": "JSON"}}').data AS d
    FROM batch WHERE type = 'assay.model.described.v1'
) LEFT JOIN model_name ON d.model.id = model_name.posted ORDER BY position;

-- name: traces
-- of: assay.model.traced.v1
INSERT INTO model_trace
SELECT position, event_id, source, time, recorded_at, model_name.canonical, d.model.id, d.model.category, d.model.family,
    d.model.architecture, d.model.task, d.model.parameters::BIGINT, d.workload->>'mode', d.workload->>'phase',
    (d.workload->>'batch_size')::BIGINT, (d.workload->>'sequence_length')::BIGINT, (d.workload->>'image_size')::BIGINT,
    d.workload, d.tracer, d.operators, d.totals
FROM (
    SELECT *, from_json(body, '{"data": {"model": {"id": "VARCHAR", "category": "VARCHAR", "family": "VARCHAR",
        "architecture": "VARCHAR", "task": "VARCHAR", "parameters": "VARCHAR"},
        "workload": "JSON", "tracer": "JSON", "operators": "JSON", "totals": "JSON"}}').data AS d
    FROM batch WHERE type = 'assay.model.traced.v1'
) LEFT JOIN model_name ON d.model.id = model_name.posted ORDER BY position;

-- name: kernel_tables
-- of: assay.kernel.measured.v1
INSERT INTO kernel_table
SELECT position, event_id::UUID, source, attestation, time, recorded_at, d.run_id, hardware_name.canonical, d.hardware.id,
    d.hardware.kind, coalesce(d.hardware.count::BIGINT, 1), d.device_name, d.execution.platform, d.execution.precision,
    d.execution.runtime.name, d.execution.runtime.version, d.execution.compiled::BOOLEAN, d.execution.threads::BIGINT,
    d.execution.options, d.operator, d.name, d.phase, d.kernel, d.types.published, d.types.weights, d.types.activations,
    d.types.arithmetic, d.types.kv_cache, d.method->>'$.statistic', d.method->>'$.launch', d.method->>'$.buffers', d.method,
    d.timings::BIGINT,
    coalesce(list_sum([mark.timings FOR mark IN map_values(d.marks) IF mark.verdict = 'suspect']), 0)::BIGINT,
    coalesce(list_sum([mark.timings FOR mark IN map_values(d.marks) IF mark.verdict = 'invalid']), 0)::BIGINT,
    json_extract(body, '$.data.marks'), d.validity.verdict, d.environment.fingerprint,
    d.provenance.origin, d.provenance.source, d.provenance.reference, d.provenance.licence
FROM (
    SELECT *, from_json(body, '{"data": {"run_id": "VARCHAR", "hardware": {"id": "VARCHAR", "kind": "VARCHAR", "count": "VARCHAR"},
        "device_name": "VARCHAR", "execution": {"platform": "VARCHAR", "precision": "VARCHAR", "compiled": "VARCHAR",
        "threads": "VARCHAR", "options": "JSON", "runtime": {"name": "VARCHAR", "version": "VARCHAR"}},
        "operator": "VARCHAR", "name": "VARCHAR", "phase": "VARCHAR", "kernel": "VARCHAR", "timings": "VARCHAR", "method": "JSON",
        "types": {"published": "VARCHAR", "weights": "VARCHAR", "activations": "VARCHAR", "arithmetic": "VARCHAR",
        "kv_cache": "VARCHAR"}, "marks": "MAP(VARCHAR, STRUCT(verdict VARCHAR, timings BIGINT))", "validity": {"verdict": "VARCHAR"},
        "environment": {"fingerprint": "VARCHAR"},
        "provenance": {"origin": "VARCHAR", "source": "VARCHAR", "reference": "VARCHAR", "licence": "VARCHAR"}}}').data AS d
    FROM batch WHERE type = 'assay.kernel.measured.v1'
) LEFT JOIN hardware_name ON d.hardware.id = hardware_name.posted ORDER BY position;

-- name: kernels
-- The lists of one event have one length: unnested side by side they are rows, in their order. A row without a time fails
-- NOT NULL, so that lists of other lengths make the event a dead letter.
INSERT INTO kernel
SELECT position, position * 65536 + row, row, * EXCLUDE (position, row, marks, mark, latency_ms, latency_stddev_ms,
    latency_min_ms), latency_ms, latency_stddev_ms, latency_min_ms, marks[mark].verdict, marks[mark].reason
FROM (
    SELECT position, marks, unnest(range(timings)) AS row,
        unnest(kernel_column(d.m, 'BIGINT', timings)) AS m, unnest(kernel_column(d.n, 'BIGINT', timings)) AS n,
        unnest(kernel_column(d.k, 'BIGINT', timings)) AS k, unnest(kernel_column(d.batch, 'BIGINT', timings)) AS batch,
        unnest(kernel_column(d.query_tokens, 'BIGINT', timings)) AS query_tokens,
        unnest(kernel_column(d.cached_tokens, 'BIGINT', timings)) AS cached_tokens,
        unnest(kernel_column(d.heads, 'BIGINT', timings)) AS heads,
        unnest(kernel_column(d.kv_heads, 'BIGINT', timings)) AS kv_heads,
        unnest(kernel_column(d.head_dim, 'BIGINT', timings)) AS head_dim,
        unnest(kernel_column(d.window_size, 'BIGINT', timings)) AS window_size,
        unnest(kernel_column(d.in_channels, 'BIGINT', timings)) AS in_channels,
        unnest(kernel_column(d.out_channels, 'BIGINT', timings)) AS out_channels,
        unnest(kernel_column(d.height, 'BIGINT', timings)) AS height,
        unnest(kernel_column(d.width, 'BIGINT', timings)) AS width,
        unnest(kernel_column(d.kernel_height, 'BIGINT', timings)) AS kernel_height,
        unnest(kernel_column(d.kernel_width, 'BIGINT', timings)) AS kernel_width,
        unnest(kernel_column(d.stride, 'BIGINT', timings)) AS stride,
        unnest(kernel_column(d.padding, 'BIGINT', timings)) AS padding,
        unnest(kernel_column(d.groups, 'BIGINT', timings)) AS groups,
        unnest(kernel_column(d.tokens, 'BIGINT', timings)) AS tokens,
        unnest(kernel_column(d.hidden_size, 'BIGINT', timings)) AS hidden_size,
        unnest(kernel_column(d.inner_size, 'BIGINT', timings)) AS inner_size,
        unnest(kernel_column(d.experts, 'BIGINT', timings)) AS experts,
        unnest(kernel_column(d.top_k, 'BIGINT', timings)) AS top_k,
        unnest(kernel_column(d.tensor_parallel, 'BIGINT', timings)) AS tensor_parallel,
        unnest(kernel_column(d.expert_parallel, 'BIGINT', timings)) AS expert_parallel,
        unnest(kernel_column(d.ranks, 'BIGINT', timings)) AS ranks,
        unnest(kernel_column(d.elements, 'BIGINT', timings)) AS elements,
        unnest(kernel_column(d.rows, 'BIGINT', timings)) AS rows,
        unnest(kernel_column(d.row_size, 'BIGINT', timings)) AS row_size,
        unnest(kernel_column(d.inputs, 'BIGINT', timings)) AS inputs,
        unnest(kernel_column(d.samples_n, 'BIGINT', timings)) AS samples_n,
        unnest(kernel_column(d.calls, 'BIGINT', timings)) AS calls,
        unnest(kernel_column(d.model_batch, 'BIGINT', timings)) AS model_batch,
        unnest(kernel_column(d.model_sequence, 'BIGINT', timings)) AS model_sequence,
        unnest(kernel_column(d.kernel, 'VARCHAR', timings)) AS kernel,
        unnest(kernel_column(d.shape, 'VARCHAR', timings)) AS shape,
        unnest(kernel_column(d.distribution, 'VARCHAR', timings)) AS distribution,
        unnest(kernel_column(d.split, 'VARCHAR', timings)) AS split,
        unnest(kernel_column(d.part_of, 'VARCHAR', timings)) AS part_of,
        unnest(kernel_column(d.mode, 'VARCHAR', timings)) AS mode, unnest(kernel_column(d.mark, 'VARCHAR', timings)) AS mark,
        unnest(kernel_column(d.latency_ms, 'DOUBLE', timings)) AS latency_ms,
        unnest(kernel_column(d.latency_stddev_ms, 'DOUBLE', timings)) AS latency_stddev_ms,
        unnest(kernel_column(d.latency_min_ms, 'DOUBLE', timings)) AS latency_min_ms
    FROM (
        SELECT position, json_extract(body, '$.data.timings')::BIGINT AS timings,
            from_json(json_extract(body, '$.data.marks'), '"MAP(VARCHAR, STRUCT(verdict VARCHAR, reason VARCHAR))"') AS marks,
            from_json(json_merge_patch(
                coalesce(json_extract(body, '$.data.fixed'), '{}'), json_extract(body, '$.data.columns')), '{
            "m": "JSON", "n": "JSON", "k": "JSON", "batch": "JSON", "query_tokens": "JSON", "cached_tokens": "JSON",
            "heads": "JSON", "kv_heads": "JSON", "head_dim": "JSON", "window_size": "JSON", "in_channels": "JSON",
            "out_channels": "JSON", "height": "JSON", "width": "JSON", "kernel_height": "JSON", "kernel_width": "JSON",
            "stride": "JSON", "padding": "JSON", "groups": "JSON", "tokens": "JSON", "hidden_size": "JSON",
            "inner_size": "JSON", "experts": "JSON", "top_k": "JSON", "tensor_parallel": "JSON", "expert_parallel": "JSON",
            "ranks": "JSON", "elements": "JSON", "rows": "JSON", "row_size": "JSON", "inputs": "JSON", "samples_n": "JSON",
            "calls": "JSON", "model_batch": "JSON", "model_sequence": "JSON", "kernel": "JSON", "shape": "JSON",
            "distribution": "JSON", "split": "JSON", "part_of": "JSON", "mode": "JSON", "mark": "JSON", "latency_ms": "JSON",
            "latency_stddev_ms": "JSON", "latency_min_ms": "JSON"}') AS d
        FROM batch WHERE type = 'assay.kernel.measured.v1' AND position BETWEEN $low AND $high
    )
);

-- name: hardware
-- of: assay.hardware.described.v1
INSERT INTO hardware_description
SELECT position, event_id, source, time, recorded_at, hardware_name.canonical, d.hardware.id, d.hardware.kind,
    coalesce(d.hardware.count::BIGINT, 1), d.name, d.vendor, d.aliases, d.platforms, d.spec, d.environment.fingerprint
FROM (
    SELECT *, from_json(body, '{"data": {"hardware": {"id": "VARCHAR", "kind": "VARCHAR", "count": "VARCHAR"},
        "name": "VARCHAR", "vendor": "VARCHAR", "aliases": "JSON", "platforms": "JSON", "spec": "JSON",
        "environment": {"fingerprint": "VARCHAR"}}}').data AS d
    FROM batch WHERE type = 'assay.hardware.described.v1'
) LEFT JOIN hardware_name ON d.hardware.id = hardware_name.posted ORDER BY position;

-- name: environments
INSERT INTO environment
SELECT position, event_id, source, time, recorded_at, e.fingerprint, e.driver, e.os, e.kernel, e.python, e.cpu, e.machine,
    e.hypervisor, e.memory_bytes::BIGINT, e.libraries
FROM (
    SELECT batch.* EXCLUDE (body), from_json(environment, '{"fingerprint": "VARCHAR", "driver": "VARCHAR", "os": "VARCHAR",
        "kernel": "VARCHAR", "python": "VARCHAR", "cpu": "VARCHAR", "machine": "VARCHAR", "hypervisor": "VARCHAR",
        "memory_bytes": "VARCHAR", "libraries": "JSON"}') AS e
    FROM batch JOIN (
        SELECT id AS position, environment_sent AS environment FROM context
        WHERE environment_sent <> '' AND id >= (SELECT min(position) FROM batch)
        UNION ALL
        SELECT position, json_extract(body, '$.data.environment')::VARCHAR FROM batch
        WHERE type IN ('assay.run.started.v1', 'assay.hardware.described.v1')
    ) USING (position)
)
WHERE e.fingerprint IS NOT NULL AND e.fingerprint NOT IN (SELECT fingerprint FROM environment)
QUALIFY row_number() OVER (PARTITION BY e.fingerprint ORDER BY position) = 1
ORDER BY position;

-- name: prices
-- of: assay.price.published.v1
INSERT INTO price
SELECT position, event_id, source, time, recorded_at, hardware_name.canonical, d.hardware.id,
    coalesce(d.hardware.count::BIGINT, 1), d.provider, d.usd_per_hour::DOUBLE, d.date, d.instance, d.region,
    coalesce(d.spot::BOOLEAN, false), d.source
FROM (
    SELECT *, from_json(body, '{"data": {"hardware": {"id": "VARCHAR", "count": "VARCHAR"}, "provider": "VARCHAR",
        "usd_per_hour": "VARCHAR", "date": "VARCHAR", "instance": "VARCHAR", "region": "VARCHAR", "spot": "VARCHAR",
        "source": "VARCHAR"}}').data AS d
    FROM batch WHERE type = 'assay.price.published.v1'
) LEFT JOIN hardware_name ON d.hardware.id = hardware_name.posted ORDER BY position;

-- name: retractions
INSERT INTO retraction
SELECT position, event_id, source, time, recorded_at, d.event_id, d.run_id, d.reason FROM (
    SELECT *, from_json(body, '{"data": {"event_id": "VARCHAR", "run_id": "VARCHAR", "reason": "VARCHAR"}}').data AS d
    FROM batch WHERE type = 'assay.measurement.retracted.v1'
) ORDER BY position;

-- name: predictors
-- of: assay.predictor.trained.v1
INSERT INTO predictor
SELECT position, event_id, source, time, recorded_at, d.digest, d.position::BIGINT, d.card, coalesce(d.accepted::BOOLEAN, true),
    d.reason, d.comparison
FROM (
    SELECT *, from_json(body, '{"data": {"digest": "VARCHAR", "position": "VARCHAR", "card": "JSON", "accepted": "VARCHAR",
        "reason": "VARCHAR", "comparison": "JSON"}}').data AS d
    FROM batch WHERE type = 'assay.predictor.trained.v1'
) ORDER BY position;

-- name: predictor_choices
-- of: assay.predictor.chosen.v1
INSERT INTO predictor_choice
SELECT position, event_id, source, time, recorded_at, d.digest, d.by, d.reason FROM (
    SELECT *, from_json(body, '{"data": {"digest": "VARCHAR", "by": "VARCHAR", "reason": "VARCHAR"}}').data AS d
    FROM batch WHERE type = 'assay.predictor.chosen.v1'
) ORDER BY position;

-- name: predictions
-- of: assay.prediction.issued.v1
INSERT INTO prediction
SELECT position, event_id, source, time, recorded_at, d.prediction, d.position::BIGINT, d.question, d.answer FROM (
    SELECT *, from_json(body, '{"data": {"prediction": "VARCHAR", "position": "VARCHAR", "question": "JSON", "answer": "JSON"}}').data AS d
    FROM batch WHERE type = 'assay.prediction.issued.v1'
) ORDER BY position;

-- name: recommendations
-- of: assay.recommendation.issued.v1
INSERT INTO recommendation
SELECT position, event_id, source, time, recorded_at, d.recommendation, d.position::BIGINT, d.question, d.answer FROM (
    SELECT *, from_json(body, '{"data": {"recommendation": "VARCHAR", "position": "VARCHAR", "question": "JSON", "answer": "JSON"}}').data AS d
    FROM batch WHERE type = 'assay.recommendation.issued.v1'
) ORDER BY position;

-- name: operations
-- of: assay.operation.performed.v1
INSERT INTO operation
SELECT position, event_id, source, time, recorded_at, d.action, d.actor, d.object, d.details FROM (
    SELECT *, from_json(body, '{"data": {"action": "VARCHAR", "actor": "VARCHAR", "object": "VARCHAR", "details": "JSON"}}').data AS d
    FROM batch WHERE type = 'assay.operation.performed.v1'
) ORDER BY position;

-- name: baselines
-- of: assay.baseline.named.v1
INSERT INTO baseline
SELECT position, event_id, source, time, recorded_at, d.name, d.branch, d.position::BIGINT, d.start.branch, d.start.position::BIGINT,
    d.hardware, d.note, coalesce(d.withdrawn::BOOLEAN, false)
FROM (
    SELECT *, from_json(body, '{"data": {"name": "VARCHAR", "branch": "VARCHAR", "position": "VARCHAR",
        "start": {"branch": "VARCHAR", "position": "VARCHAR"}, "hardware": "VARCHAR", "note": "VARCHAR",
        "withdrawn": "VARCHAR"}}').data AS d
    FROM batch WHERE type = 'assay.baseline.named.v1'
) ORDER BY position;

-- name: snapshots
-- of: assay.snapshot.named.v1
INSERT INTO snapshot
SELECT position, event_id, source, time, recorded_at, d.name, d.position::BIGINT, d.note, coalesce(d.withdrawn::BOOLEAN, false)
FROM (
    SELECT *, from_json(body, '{"data": {"name": "VARCHAR", "position": "VARCHAR", "note": "VARCHAR", "withdrawn": "VARCHAR"}}').data AS d
    FROM batch WHERE type = 'assay.snapshot.named.v1'
) ORDER BY position;

-- name: alerts_raised
-- of: assay.alert.raised.v1
INSERT INTO alert_raised
SELECT position, event_id, source, time, recorded_at, d.alert, d.title, d.direction, d.kind, d.cause, d.changes,
    d.position::BIGINT
FROM (
    SELECT *, from_json(body, '{"data": {"alert": "VARCHAR", "title": "VARCHAR", "direction": "VARCHAR", "kind": "VARCHAR",
        "cause": "JSON", "changes": "JSON", "position": "VARCHAR"}}').data AS d
    FROM batch WHERE type = 'assay.alert.raised.v1'
) ORDER BY position;

-- name: alerts_changed
-- of: assay.alert.changed.v1
INSERT INTO alert_changed
SELECT position, event_id, source, time, recorded_at, d.alert, d.state, d.author, d.reason, d.gone
FROM (
    SELECT *, from_json(body, '{"data": {"alert": "VARCHAR", "state": "VARCHAR", "author": "VARCHAR", "reason": "VARCHAR",
        "gone": "JSON"}}').data AS d
    FROM batch WHERE type = 'assay.alert.changed.v1'
) ORDER BY position;

-- name: jobs_requested
-- of: assay.job.requested.v1
INSERT INTO job_requested
SELECT position, event_id, source, time, recorded_at, d.job, d.submission, d.name, d.title, d.needs, d.priority::BIGINT,
    d.attempts::BIGINT, d.author, d.schedule, d."at"::TIMESTAMPTZ, d.plan
FROM (
    SELECT *, from_json(body, '{"data": {"job": "VARCHAR", "submission": "VARCHAR", "name": "VARCHAR", "title": "VARCHAR",
        "needs": "JSON", "priority": "VARCHAR", "attempts": "VARCHAR", "author": "VARCHAR", "schedule": "VARCHAR",
        "at": "VARCHAR", "plan": "JSON"}}').data AS d
    FROM batch WHERE type = 'assay.job.requested.v1'
) ORDER BY position;

-- name: jobs_changed
-- of: assay.job.started.v1, assay.job.finished.v1, assay.job.failed.v1, assay.job.cancelled.v1
INSERT INTO job_changed
SELECT position, event_id, source, time, recorded_at, d.job,
    CASE type WHEN 'assay.job.started.v1' THEN 'running' WHEN 'assay.job.finished.v1' THEN 'succeeded'
        WHEN 'assay.job.cancelled.v1' THEN 'cancelled' ELSE if(d.waiting::BOOLEAN, 'waiting', 'failed') END,
    d.attempt::BIGINT, d.worker, d.device, d.hardware, d.reason, d.run_ids, d.exit_code::BIGINT
FROM (
    SELECT *, from_json(body, '{"data": {"job": "VARCHAR", "attempt": "VARCHAR", "worker": "VARCHAR", "device": "VARCHAR",
        "hardware": "VARCHAR", "reason": "VARCHAR", "waiting": "VARCHAR", "run_ids": ["VARCHAR"],
        "exit_code": "VARCHAR"}}').data AS d
    FROM batch WHERE type IN ('assay.job.started.v1', 'assay.job.finished.v1', 'assay.job.failed.v1',
                              'assay.job.cancelled.v1')
) ORDER BY position;

-- name: variants
-- of: assay.variant.created.v1
INSERT INTO variant
SELECT position, event_id, source, time, recorded_at, d.run_id, model_name.canonical, d.model.id, base_name.canonical, d.base.id,
    d.model.category, d.model.family, d.model.task, d.model.parameters::BIGINT, d.model.weights, d.recipe,
    form.kind, form.precision, form.quantization, list_sum(list_transform(form.files, lambda file: file.bytes::BIGINT))::BIGINT,
    list_sum(flatten(list_transform(d.forms, lambda one: list_transform(one.files, lambda file: file.bytes::BIGINT))))::BIGINT,
    d.base_bytes::BIGINT, d.digest, d.base_digest, d.parameters, d.tools, d.calibration.name, d.calibration.digest,
    d.calibration.examples::BIGINT, d.environment.fingerprint, d.provenance.origin, d.provenance.source,
    d.provenance.reference, d.provenance.licence
FROM (
    SELECT *, unnest(d.forms) AS form, generate_subscripts(d.forms, 1) AS place FROM (
        SELECT *, from_json(body, '{"data": {"run_id": "VARCHAR",
            "model": {"id": "VARCHAR", "category": "VARCHAR", "family": "VARCHAR", "task": "VARCHAR", "parameters": "VARCHAR",
                "weights": "VARCHAR"},
            "base": {"id": "VARCHAR"}, "recipe": "VARCHAR", "digest": "VARCHAR", "base_digest": "VARCHAR",
            "base_bytes": "VARCHAR", "parameters": "JSON", "tools": "JSON",
            "forms": [{"kind": "VARCHAR", "precision": "VARCHAR", "quantization": "VARCHAR", "files": [{"bytes": "VARCHAR"}]}],
            "calibration": {"name": "VARCHAR", "digest": "VARCHAR", "examples": "VARCHAR"},
            "environment": {"fingerprint": "VARCHAR"}, "provenance": {"origin": "VARCHAR", "source": "VARCHAR",
            "reference": "VARCHAR", "licence": "VARCHAR"}}}').data AS d
        FROM batch WHERE type = 'assay.variant.created.v1'
    )
) LEFT JOIN model_name ON d.model.id = model_name.posted LEFT JOIN model_name AS base_name ON d.base.id = base_name.posted
ORDER BY position, place;

-- name: quality
-- of: assay.quality.measured.v1
INSERT INTO quality_comparison
SELECT position, event_id, source, time, recorded_at, d.run_id, model_name.canonical, d.model.id, base_name.canonical, d.base.id,
    hardware_name.canonical, d.hardware.id, d.hardware.kind, coalesce(d.hardware.count::BIGINT, 1),
    d.execution.platform, d.execution.precision, d.execution.runtime.name, d.execution.runtime.version,
    d.execution.compiled::BOOLEAN, d.execution.options, d.metric, coalesce(d.unit, 'pt'), coalesce(d.direction, 'higher'),
    d.examples::BIGINT, d.value::DOUBLE, d.base_value::DOUBLE, d.loss::DOUBLE, d.interval[1]::DOUBLE, d.interval[2]::DOUBLE,
    d.method, d.worse::BIGINT, d.better::BIGINT, d.p_value::DOUBLE, d.evaluator, d.data.name, d.data.digest,
    d.data.examples::BIGINT, d.distance.cosine::DOUBLE, d.distance.max_absolute::DOUBLE, d.environment.fingerprint,
    d.provenance.origin, d.provenance.source, d.provenance.reference, d.provenance.licence
FROM (
    SELECT *, from_json(body, '{"data": {"run_id": "VARCHAR", "model": {"id": "VARCHAR"}, "base": {"id": "VARCHAR"},
        "hardware": {"id": "VARCHAR", "kind": "VARCHAR", "count": "VARCHAR"},
        "execution": {"platform": "VARCHAR", "precision": "VARCHAR", "runtime": {"name": "VARCHAR", "version": "VARCHAR"},
            "compiled": "VARCHAR", "options": "JSON"},
        "metric": "VARCHAR", "unit": "VARCHAR", "direction": "VARCHAR", "examples": "VARCHAR", "value": "VARCHAR",
        "base_value": "VARCHAR", "loss": "VARCHAR", "interval": ["VARCHAR"], "method": "VARCHAR", "worse": "VARCHAR",
        "better": "VARCHAR", "p_value": "VARCHAR", "evaluator": "VARCHAR",
        "data": {"name": "VARCHAR", "digest": "VARCHAR", "examples": "VARCHAR"},
        "distance": {"cosine": "VARCHAR", "max_absolute": "VARCHAR"}, "environment": {"fingerprint": "VARCHAR"},
        "provenance": {"origin": "VARCHAR", "source": "VARCHAR", "reference": "VARCHAR", "licence": "VARCHAR"}}}').data AS d
    FROM batch WHERE type = 'assay.quality.measured.v1'
) LEFT JOIN model_name ON d.model.id = model_name.posted LEFT JOIN model_name AS base_name ON d.base.id = base_name.posted
LEFT JOIN hardware_name ON d.hardware.id = hardware_name.posted ORDER BY position;

-- name: endpoints
-- of: assay.endpoint.changed.v1
INSERT INTO endpoint_change
SELECT position, event_id, source, time, recorded_at, d.endpoint, d.server, d.change, model_name.canonical, d.model.id,
    hardware_name.canonical, d.hardware.id, if(d.hardware.id IS NULL, NULL, coalesce(d.hardware.count::BIGINT, 1)),
    d.execution.platform, d.execution.precision, d.execution.runtime.name, d.execution.runtime.version,
    d.workers::BIGINT, d.memory_bytes::BIGINT, d.reason, d.promise.latency_ms::DOUBLE, d.promise.low::DOUBLE, d.promise.high::DOUBLE,
    d.promise.coverage::DOUBLE, d.promise.origin, if(d.promise.latency_ms IS NULL, NULL, coalesce(d.promise.percentile, 'p50')),
    d.promise.recommendation
FROM (
    SELECT *, from_json(body, '{"data": {"endpoint": "VARCHAR", "server": "VARCHAR", "change": "VARCHAR",
        "model": {"id": "VARCHAR"}, "hardware": {"id": "VARCHAR", "count": "VARCHAR"},
        "execution": {"platform": "VARCHAR", "precision": "VARCHAR", "runtime": {"name": "VARCHAR", "version": "VARCHAR"}},
        "workers": "VARCHAR", "memory_bytes": "VARCHAR", "reason": "VARCHAR", "promise": {"latency_ms": "VARCHAR", "low": "VARCHAR",
        "high": "VARCHAR", "coverage": "VARCHAR", "origin": "VARCHAR", "percentile": "VARCHAR", "recommendation": "VARCHAR"}}}').data AS d
    FROM batch WHERE type = 'assay.endpoint.changed.v1'
) LEFT JOIN model_name ON d.model.id = model_name.posted LEFT JOIN hardware_name ON d.hardware.id = hardware_name.posted
ORDER BY position;

-- name: deliveries
-- of: assay.delivery.observed.v1
INSERT INTO delivery
SELECT position, event_id, source, time, recorded_at, d.endpoint, d.server, model_name.canonical, d.model.id,
    hardware_name.canonical, d.hardware.id, coalesce(d.hardware.count::BIGINT, 1),
    d.execution.platform, d.execution.precision, d.execution.runtime.name, d.execution.runtime.version, d.workload,
    d.since::TIMESTAMPTZ, d.until::TIMESTAMPTZ, d.requests::BIGINT, d.failures::BIGINT, d.verdict, d.reason,
    d.throughput_per_s::DOUBLE, d.latency_ms.mean::DOUBLE, d.latency_ms.p50::DOUBLE, d.latency_ms.p90::DOUBLE,
    d.latency_ms.p95::DOUBLE, d.latency_ms.p99::DOUBLE, d.latency_ms.n::BIGINT,
    d.request_ms.mean::DOUBLE, d.request_ms.p50::DOUBLE, d.request_ms.p95::DOUBLE, d.request_ms.p99::DOUBLE,
    d.promise.latency_ms::DOUBLE, d.promise.low::DOUBLE, d.promise.high::DOUBLE,
    d.promise.coverage::DOUBLE, d.promise.origin, if(d.promise.latency_ms IS NULL, NULL, coalesce(d.promise.percentile, 'p50')),
    d.promise.recommendation
FROM (
    SELECT *, from_json(body, '{"data": {"endpoint": "VARCHAR", "server": "VARCHAR", "model": {"id": "VARCHAR"},
        "hardware": {"id": "VARCHAR", "count": "VARCHAR"},
        "execution": {"platform": "VARCHAR", "precision": "VARCHAR", "runtime": {"name": "VARCHAR", "version": "VARCHAR"}},
        "workload": "JSON", "since": "VARCHAR", "until": "VARCHAR", "requests": "VARCHAR", "failures": "VARCHAR",
        "verdict": "VARCHAR", "reason": "VARCHAR", "throughput_per_s": "VARCHAR",
        "latency_ms": {"mean": "VARCHAR", "p50": "VARCHAR", "p90": "VARCHAR", "p95": "VARCHAR", "p99": "VARCHAR", "n": "VARCHAR"},
        "request_ms": {"mean": "VARCHAR", "p50": "VARCHAR", "p95": "VARCHAR", "p99": "VARCHAR"},
        "promise": {"latency_ms": "VARCHAR", "low": "VARCHAR",
        "high": "VARCHAR", "coverage": "VARCHAR", "origin": "VARCHAR", "percentile": "VARCHAR", "recommendation": "VARCHAR"}}}').data AS d
    FROM batch WHERE type = 'assay.delivery.observed.v1'
) LEFT JOIN model_name ON d.model.id = model_name.posted LEFT JOIN hardware_name ON d.hardware.id = hardware_name.posted
ORDER BY position;

-- name: dead_letters
INSERT INTO dead_letter
SELECT position, event_id, type, recorded_at, reason FROM arrived JOIN letter USING (position) ORDER BY position;

-- name: malformed
SELECT position FROM arrived WHERE NOT json_valid(body);
