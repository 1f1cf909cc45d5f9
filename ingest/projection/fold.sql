-- How one batch of events becomes rows. `batch` is the batch as it came from the log; each block is one statement.
-- A value of the wrong type fails its cast, a missing one that is needed fails NOT NULL: both make the event a dead letter.

-- name: counts
INSERT INTO event_type_count
SELECT type, count(*), min(position), max(position) FROM batch GROUP BY type ORDER BY type
ON CONFLICT (type) DO UPDATE SET
    events = events + excluded.events, last_position = excluded.last_position;

-- name: moments
INSERT INTO moment SELECT position, recorded_at FROM batch ORDER BY position;

-- name: aliases
INSERT INTO alias
SELECT position, event_id, source, time, recorded_at, d.kind, d.alias, d.canonical, d.reason FROM (
    SELECT *, from_json(body, '{"data": {"kind": "VARCHAR", "alias": "VARCHAR", "canonical": "VARCHAR", "reason": "VARCHAR"}}').data AS d
    FROM batch WHERE type = 'assay.alias.declared.v1'
) ORDER BY position;

-- name: facts
CREATE OR REPLACE TEMPORARY TABLE fact AS
SELECT position, event_id, type, source, time, recorded_at, d.* FROM (
    SELECT * EXCLUDE (body), from_json(body, '{"data": {
        "run_id": "VARCHAR",
        "model": {"id": "VARCHAR", "category": "VARCHAR", "family": "VARCHAR", "architecture": "VARCHAR", "task": "VARCHAR",
                  "revision": "VARCHAR", "parameters": "VARCHAR", "weights": "VARCHAR"},
        "workload": "JSON",
        "execution": "JSON",
        "hardware": {"id": "VARCHAR", "kind": "VARCHAR", "count": "VARCHAR"},
        "environment": {"fingerprint": "VARCHAR"},
        "observed": {"device": "VARCHAR", "platform": "VARCHAR", "precision": "VARCHAR", "fallback_share": "VARCHAR",
                     "requested": {"device": "VARCHAR", "platform": "VARCHAR", "precision": "VARCHAR"}},
        "metrics": {
            "latency_ms": {"mean": "VARCHAR", "min": "VARCHAR", "max": "VARCHAR", "stddev": "VARCHAR", "p50": "VARCHAR",
                           "p90": "VARCHAR", "p95": "VARCHAR", "p99": "VARCHAR", "n": "VARCHAR", "ci95": "JSON"},
            "throughput_per_s": "VARCHAR", "tokens_per_s": "VARCHAR", "ttft_ms": "VARCHAR", "tpot_ms": "VARCHAR",
            "realtime_factor": "VARCHAR", "load_ms": "VARCHAR", "convert_ms": "VARCHAR", "compile_ms": "VARCHAR",
            "first_run_ms": "VARCHAR", "preprocess_ms": "VARCHAR", "forward_ms": "VARCHAR", "loss_ms": "VARCHAR",
            "backward_ms": "VARCHAR", "optimizer_ms": "VARCHAR", "peak_memory_bytes": "VARCHAR",
            "mean_memory_bytes": "VARCHAR", "device_memory_bytes": "VARCHAR", "energy_j": "VARCHAR", "power_w": "VARCHAR",
            "utilisation": "VARCHAR", "goodput_per_s": "VARCHAR", "roofline_share": "VARCHAR"},
        "samples": {"digest": "VARCHAR", "n": "VARCHAR"},
        "validity": {"verdict": "VARCHAR", "reasons": "JSON", "metrics": "JSON"},
        "provenance": {"origin": "VARCHAR", "source": "VARCHAR", "reference": "VARCHAR", "licence": "VARCHAR"},
        "test": "VARCHAR", "outcome": "VARCHAR", "stage": "VARCHAR",
        "failure": {"error": "VARCHAR", "message": "VARCHAR"}, "remedy": "VARCHAR", "checks": "JSON"
    }}').data AS d
    FROM batch
    WHERE type IN ('assay.measurement.recorded.v1', 'assay.measurement.failed.v1', 'assay.test.reported.v1')
);

-- name: distinct_parts
SELECT DISTINCT workload, execution, observed.platform, observed.precision FROM fact;

-- name: distinct_models
SELECT DISTINCT from_json(body, '{"data": {"model": {"id": "VARCHAR"}}}').data.model.id FROM batch
WHERE type IN ('assay.measurement.recorded.v1', 'assay.measurement.failed.v1', 'assay.test.reported.v1',
               'assay.model.described.v1', 'assay.model.traced.v1');

-- name: distinct_hardware
SELECT DISTINCT from_json(body, '{"data": {"hardware": {"id": "VARCHAR"}}}').data.hardware.id FROM batch
WHERE type IN ('assay.measurement.recorded.v1', 'assay.measurement.failed.v1', 'assay.test.reported.v1',
               'assay.hardware.described.v1', 'assay.price.published.v1');

-- name: keyed
CREATE OR REPLACE TEMPORARY TABLE keyed AS
SELECT
    fact.position, fact.type, event_id, source, time, recorded_at, run_id,
    configuration_key(
        part.execution_key, hardware_name.canonical, coalesce(fact.hardware.count::BIGINT, 1), model_name.canonical,
        part.workload_key
    ) AS configuration,
    model_name.canonical AS model_id, fact.model.id AS model_id_posted, fact.model.category, fact.model.family,
    fact.model.architecture, fact.model.task, fact.model.revision, fact.model.parameters::BIGINT AS parameters,
    fact.model.weights,
    hardware_name.canonical AS hardware_id, fact.hardware.id AS hardware_id_posted, fact.hardware.kind AS hardware_kind,
    coalesce(fact.hardware.count::BIGINT, 1) AS hardware_count,
    part.mode, part.scenario, part.batch_size, part.sequence_length, part.image_size, part.images, part.audio_seconds,
    part.frames, part.input_tokens, part.output_tokens, part.concurrency, part.arrival_rate_per_s, part.optimizer,
    part.gradient_checkpointing,
    part.platform, part.precision,
    coalesce(observed.requested.platform, part.platform_asked) AS platform_asked,
    coalesce(observed.requested.precision, part.precision_asked) AS precision_asked,
    observed.device AS device, observed.requested.device AS device_asked,
    observed.fallback_share::DOUBLE AS fallback_share,
    part.runtime_name, part.runtime_version, part.compiled, part.layout, part.threads, part.streams,
    part.parallelism::JSON AS parallelism, part.power_limit_w, part.options::JSON AS options,
    part.workload_key::JSON AS workload, part.execution_key::JSON AS execution,
    environment.fingerprint AS environment_fingerprint
FROM fact
LEFT JOIN part ON fact.workload = part.workload_sent AND fact.execution = part.execution_sent
    AND coalesce(fact.observed.platform, '') = part.observed_platform
    AND coalesce(fact.observed.precision, '') = part.observed_precision
LEFT JOIN model_name ON fact.model.id = model_name.posted
LEFT JOIN hardware_name ON fact.hardware.id = hardware_name.posted;

-- name: measurements
INSERT INTO measurement
SELECT
    keyed.* EXCLUDE (type),
    l.mean::DOUBLE, l.min::DOUBLE, l.max::DOUBLE, l.stddev::DOUBLE, l.p50::DOUBLE, l.p90::DOUBLE, l.p95::DOUBLE,
    l.p99::DOUBLE, l.n::BIGINT, ci.p50[1], ci.p50[2], ci.mean[1], ci.mean[2], l.ci95,
    m.throughput_per_s::DOUBLE, m.tokens_per_s::DOUBLE, m.ttft_ms::DOUBLE, m.tpot_ms::DOUBLE, m.realtime_factor::DOUBLE,
    m.load_ms::DOUBLE, m.convert_ms::DOUBLE, m.compile_ms::DOUBLE, m.first_run_ms::DOUBLE, m.preprocess_ms::DOUBLE,
    m.forward_ms::DOUBLE, m.loss_ms::DOUBLE, m.backward_ms::DOUBLE, m.optimizer_ms::DOUBLE,
    m.peak_memory_bytes::BIGINT, m.mean_memory_bytes::BIGINT, m.device_memory_bytes::BIGINT,
    m.energy_j::DOUBLE, m.power_w::DOUBLE, m.utilisation::DOUBLE, m.goodput_per_s::DOUBLE, m.roofline_share::DOUBLE,
    samples.digest, samples.n::BIGINT,
    validity.verdict, validity.reasons, validity.metrics,
    provenance.origin, provenance.source, provenance.reference, provenance.licence
FROM keyed JOIN (
    SELECT position, metrics AS m, metrics.latency_ms AS l,
        from_json(metrics.latency_ms.ci95, '{"p50": ["DOUBLE"], "mean": ["DOUBLE"]}') AS ci,
        samples, validity, provenance
    FROM fact
) AS seen USING (position)
WHERE keyed.type = 'assay.measurement.recorded.v1' ORDER BY position;

-- name: tests
INSERT INTO test
SELECT
    keyed.* EXCLUDE (type),
    CASE keyed.type WHEN 'assay.test.reported.v1' THEN 'test' ELSE 'failure' END,
    CASE keyed.type WHEN 'assay.test.reported.v1' THEN coalesce(test, 'verify') END,
    outcome, stage, failure.error, failure.message, remedy, checks,
    provenance.origin, provenance.source, provenance.reference, provenance.licence
FROM keyed JOIN (
    SELECT position, test, outcome, stage, failure, remedy, checks, provenance FROM fact
) AS seen USING (position)
WHERE keyed.type IN ('assay.test.reported.v1', 'assay.measurement.failed.v1') ORDER BY position;

-- name: runs
INSERT INTO run
SELECT position, event_id, source, time, recorded_at, d.run_id, d.kind, d.hardware, d.environment.fingerprint, d.plan,
    d.planned::BIGINT, d.provenance.origin, d.provenance.source, d.provenance.reference, d.provenance.licence
FROM (
    SELECT *, from_json(body, '{"data": {"run_id": "VARCHAR", "kind": "VARCHAR", "hardware": "JSON",
        "environment": {"fingerprint": "VARCHAR"}, "plan": "JSON", "planned": "VARCHAR",
        "provenance": {"origin": "VARCHAR", "source": "VARCHAR", "reference": "VARCHAR", "licence": "VARCHAR"}}}').data AS d
    FROM batch WHERE type = 'assay.run.started.v1'
) ORDER BY position;

-- name: run_ends
INSERT INTO run_end
SELECT position, event_id, source, time, recorded_at, d.run_id, d.outcome, d.measured::BIGINT, d.failed::BIGINT,
    d.tests::BIGINT, d.reason
FROM (
    SELECT *, from_json(body, '{"data": {"run_id": "VARCHAR", "outcome": "VARCHAR", "measured": "VARCHAR",
        "failed": "VARCHAR", "tests": "VARCHAR", "reason": "VARCHAR"}}').data AS d
    FROM batch WHERE type = 'assay.run.finished.v1'
) ORDER BY position;

-- name: models
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

-- name: hardware
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
    SELECT * EXCLUDE (body), from_json(body, '{"data": {"environment": {"fingerprint": "VARCHAR", "driver": "VARCHAR",
        "os": "VARCHAR", "kernel": "VARCHAR", "python": "VARCHAR", "cpu": "VARCHAR", "machine": "VARCHAR",
        "hypervisor": "VARCHAR", "memory_bytes": "VARCHAR", "libraries": "JSON"}}}').data.environment AS e
    FROM batch
    WHERE type IN ('assay.run.started.v1', 'assay.hardware.described.v1', 'assay.measurement.recorded.v1',
                   'assay.measurement.failed.v1', 'assay.test.reported.v1')
)
WHERE e.fingerprint IS NOT NULL AND e.fingerprint NOT IN (SELECT fingerprint FROM environment)
QUALIFY row_number() OVER (PARTITION BY e.fingerprint ORDER BY position) = 1
ORDER BY position;

-- name: prices
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
INSERT INTO predictor
SELECT position, event_id, source, time, recorded_at, d.digest, d.position::BIGINT, d.card FROM (
    SELECT *, from_json(body, '{"data": {"digest": "VARCHAR", "position": "VARCHAR", "card": "JSON"}}').data AS d
    FROM batch WHERE type = 'assay.predictor.trained.v1'
) ORDER BY position;

-- name: recommendations
INSERT INTO recommendation
SELECT position, event_id, source, time, recorded_at, d.recommendation, d.position::BIGINT, d.question, d.answer FROM (
    SELECT *, from_json(body, '{"data": {"recommendation": "VARCHAR", "position": "VARCHAR", "question": "JSON", "answer": "JSON"}}').data AS d
    FROM batch WHERE type = 'assay.recommendation.issued.v1'
) ORDER BY position;

-- name: dead_letter
INSERT INTO dead_letter SELECT position, event_id, type, recorded_at, $reason FROM batch;
