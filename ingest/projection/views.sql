-- The stable views: what people and programs query. reference.toml describes each. Retracted rows are not in them.

-- name: measurements
SELECT
    m.position, m.event_id::VARCHAR AS event_id, c.source, c.attestation, m.time, m.recorded_at, c.run_id, s.configuration,
    s.model_id, s.model_id_posted, s.category, s.family, s.architecture, s.task, s.revision, s.parameters, s.weights,
    s.hardware_id, s.hardware_id_posted, s.hardware_kind, s.hardware_count,
    s.mode, s.scenario, s.batch_size, s.sequence_length, s.image_size, s.images, s.audio_seconds, s.frames, s.input_tokens,
    s.output_tokens, s.steps, s.concurrency, s.arrival_rate_per_s, s.optimizer, s.gradient_checkpointing,
    s.platform, s.precision, s.platform_asked, s.precision_asked, s.device, s.device_asked, s.fallback_share,
    s.runtime_name, s.runtime_version, s.compiled, s.layout, s.threads, s.streams, s.parallelism, s.power_limit_w, s.options,
    s.scenario_result, s.training_ranks, s.workload, s.execution, c.environment_fingerprint,
    m.latency_mean_ms, m.latency_min_ms, m.latency_max_ms, m.latency_stddev_ms, m.latency_p50_ms, m.latency_p90_ms,
    m.latency_p95_ms, m.latency_p99_ms, m.latency_n,
    m.latency_p50_ci95_low_ms, m.latency_p50_ci95_high_ms, m.latency_mean_ci95_low_ms, m.latency_mean_ci95_high_ms,
    CASE WHEN m.other_ci95 IS NOT NULL THEN m.other_ci95
        WHEN coalesce(m.latency_p50_ci95_low_ms, m.latency_mean_ci95_low_ms) IS NOT NULL THEN '{' || concat_ws(',',
            '"p50":[' || m.latency_p50_ci95_low_ms || ',' || m.latency_p50_ci95_high_ms || ']',
            '"mean":[' || m.latency_mean_ci95_low_ms || ',' || m.latency_mean_ci95_high_ms || ']') || '}'
    END::JSON AS latency_ci95,
    m.throughput_per_s, m.tokens_per_s, m.ttft_ms, m.tpot_ms, m.realtime_factor, m.load_ms, m.convert_ms, m.compile_ms,
    m.first_run_ms, m.preprocess_ms, m.postprocess_ms, m.forward_ms, m.loss_ms, m.backward_ms, m.optimizer_ms,
    m.peak_memory_bytes, m.mean_memory_bytes, m.device_memory_bytes, m.kv_cache_bytes, m.energy_j, m.power_w,
    m.energy_per_item_j, m.energy_per_token_j, m.energy_above_idle_j, m.idle_power_w, m.device_time_ms, m.utilisation,
    m.goodput_per_s, m.roofline_share, m.samples_n, m.stopped_by, m.other_load, m.clock_before_hz, m.clock_after_hz,
    m.energy_reading, j.verdict, j.verdict_reasons, j.metric_verdicts,
    -- The verdict on the row is on times; it stands for energy only where nothing was judged by itself.
    coalesce(j.energy_verdict, CASE WHEN coalesce(j.metric_verdicts::VARCHAR, '{}') = '{}' AND coalesce(
        m.energy_j, m.power_w, m.energy_per_item_j, m.energy_per_token_j, m.energy_above_idle_j) IS NOT NULL
        THEN j.verdict END) AS energy_verdict,
    c.origin, c.provenance_source, c.reference, c.licence
FROM measurement AS m ANTI JOIN void USING (position)
JOIN subject AS s ON m.subject = s.id JOIN context AS c ON m.context = c.id JOIN judgement AS j ON m.judgement = j.id;

-- name: outcomes
SELECT
    t.position, t.event_id::VARCHAR AS event_id, c.source, c.attestation, t.time, t.recorded_at, c.run_id, s.configuration,
    s.model_id, s.model_id_posted, s.category, s.family, s.architecture, s.task, s.revision, s.parameters, s.weights,
    s.hardware_id, s.hardware_id_posted, s.hardware_kind, s.hardware_count,
    s.mode, s.scenario, s.batch_size, s.sequence_length, s.image_size, s.images, s.audio_seconds, s.frames, s.input_tokens,
    s.output_tokens, s.steps, s.concurrency, s.arrival_rate_per_s, s.optimizer, s.gradient_checkpointing,
    s.platform, s.precision, s.platform_asked, s.precision_asked, s.device, s.device_asked, s.fallback_share,
    s.runtime_name, s.runtime_version, s.compiled, s.layout, s.threads, s.streams, s.parallelism, s.power_limit_w, s.options,
    s.workload, s.execution, c.environment_fingerprint,
    t.kind, t.test, t.outcome, t.stage, t.error, t.message, t.remedy, t.checks,
    c.origin, c.provenance_source, c.reference, c.licence
FROM test AS t ANTI JOIN void USING (position)
JOIN subject AS s ON t.subject = s.id JOIN context AS c ON t.context = c.id;

-- name: tests
SELECT * EXCLUDE (kind) FROM outcomes WHERE kind = 'test';

-- name: failures
SELECT * EXCLUDE (kind, test, checks) FROM outcomes WHERE kind = 'failure';

-- name: best
SELECT best & 1152921504606846975 AS position, subject, subject.* EXCLUDE (id)
FROM standing JOIN subject ON standing.subject = subject.id
WHERE best IS NOT NULL
-- The configuration says all of the others: they stand here so that a filter on them is applied before the window.
QUALIFY row_number() OVER (
    PARTITION BY configuration, model_id, hardware_id, platform, precision, mode, scenario, batch_size, sequence_length,
        image_size
    ORDER BY best DESC
) = 1;

-- name: best_measurements
SELECT * FROM measurements SEMI JOIN best USING (position, model_id, hardware_id, platform, mode);

-- name: scaling
-- Strong scaling: the baseline does the same batch, with the threads of one rank where ranks share a processor.
SELECT
    n.* EXCLUDE (reasons), b.event_id AS baseline_event_id, b.throughput_per_s AS baseline_throughput_per_s,
    n.throughput_per_s / b.throughput_per_s AS speedup, n.throughput_per_s / b.throughput_per_s / n.ranks AS efficiency,
    CASE WHEN b.event_id IS NULL THEN NULL WHEN 'invalid' IN (n.verdict, b.verdict) THEN 'invalid'
        WHEN 'suspect' IN (n.verdict, b.verdict) THEN 'suspect' ELSE 'valid' END AS efficiency_verdict,
    CASE WHEN b.event_id IS NOT NULL THEN to_json(list_concat(n.reasons, list_transform(
        b.reasons, lambda reason: 'the baseline: ' || reason))) END AS efficiency_reasons
FROM (
    SELECT *,
        options->>'$.strategy' AS strategy, (parallelism->>'$.data')::BIGINT AS ranks, (options->>'$.nodes')::BIGINT AS nodes,
        options->>'$.backend' AS backend, (options->>'$.local_batch_size')::BIGINT AS local_batch_size,
        (training_ranks->>'$.communication.exposed_ms')::DOUBLE AS exposed_communication_ms,
        (training_ranks->>'$.communication.all_reduce_ms')::DOUBLE AS all_reduce_ms,
        (training_ranks->>'$.communication.gradient_bytes')::BIGINT AS gradient_bytes,
        list_min(from_json(training_ranks->'$.ranks[*].computing_core_share', '["DOUBLE"]')) AS least_core_share,
        coalesce(from_json(verdict_reasons, '["VARCHAR"]'), []) AS reasons
    FROM measurements WHERE training_ranks IS NOT NULL
) AS n
LEFT JOIN (
    SELECT *, coalesce(from_json(verdict_reasons, '["VARCHAR"]'), []) AS reasons FROM measurements
    WHERE mode = 'training' AND parallelism IS NULL AND options IS NULL AND throughput_per_s > 0 AND origin <> 'simulated'
) AS b ON b.model_id = n.model_id AND b.hardware_id = n.hardware_id AND b.workload = n.workload AND b.hardware_count = 1
    AND b.platform = n.platform AND b.precision = n.precision AND b.runtime_name = n.runtime_name
    AND b.runtime_version IS NOT DISTINCT FROM n.runtime_version AND b.origin = n.origin
    AND coalesce(b.compiled, false) = coalesce(n.compiled, false)
    AND (n.hardware_kind IS DISTINCT FROM 'cpu' OR b.threads * n.ranks = n.threads)
-- The baseline is sound before it is of the same environment, and of that before it is new.
QUALIFY row_number() OVER (PARTITION BY n.position ORDER BY
    CASE b.verdict WHEN 'valid' THEN 0 WHEN 'suspect' THEN 1 WHEN 'invalid' THEN 3 ELSE 2 END,
    (b.environment_fingerprint IS NOT DISTINCT FROM n.environment_fingerprint) DESC, b.position DESC) = 1;

-- name: runs
SELECT
    run.run_id, run.position, run.event_id, run.source, run.attestation, run.time AS started_at, run.recorded_at, run.kind, run.hardware,
    run.environment_fingerprint, run.plan, run.planned, run.origin, run.provenance_source, run.reference, run.licence,
    last.position AS finished_position, last.time AS finished_at, last.outcome, last.measured, last.failed, last.tests,
    last.reason, void.reason AS retracted_because,
    run.repository, run.branch, run.commit, run.pull_request, run.job, run.attempt
FROM (FROM run QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY position) = 1) AS run
LEFT JOIN (FROM run_end QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY position DESC) = 1) AS last USING (run_id)
LEFT JOIN (
    SELECT target_run_id, reason FROM retraction WHERE target_run_id IS NOT NULL
        AND NOT EXISTS (FROM retraction AS undo WHERE undo.target_event_id = retraction.event_id)
    QUALIFY row_number() OVER (PARTITION BY target_run_id ORDER BY position) = 1
) AS void ON void.target_run_id = run.run_id;

-- name: traces
SELECT * FROM model_trace
QUALIFY row_number() OVER (
    PARTITION BY model_id, mode, phase, batch_size, sequence_length, image_size, workload ORDER BY position DESC
) = 1;

-- name: kernel_tables
SELECT
    t.position, t.event_id::VARCHAR AS event_id, t.source, t.attestation, t.time, t.recorded_at, t.run_id, t.hardware_id,
    t.hardware_id_posted, t.hardware_kind, t.hardware_count, t.device_name, t.platform, t.precision, t.runtime_name,
    t.runtime_version, t.compiled, t.threads, t.options, t.operator, t.name, t.phase, t.kernel, t.type_published,
    t.type_weights, t.type_activations, t.type_arithmetic, t.type_kv_cache, t.statistic, t.launch, t.buffers, t.method,
    t.timings, t.timings_suspect, t.timings_invalid, t.marks, t.verdict, t.environment_fingerprint, t.origin,
    t.provenance_source, t.reference, t.licence
FROM kernel_table AS t ANTI JOIN void USING (position);

-- name: kernels
SELECT
    k.position, k.timing_id, t.event_id, k.row, t.time, t.run_id, t.hardware_id, t.hardware_kind, t.hardware_count,
    t.device_name, t.platform, t.precision, t.runtime_name, t.runtime_version, t.compiled, t.operator, t.name, t.phase,
    coalesce(k.kernel, t.kernel) AS kernel, t.type_published, t.type_weights, t.type_activations, t.type_arithmetic,
    t.type_kv_cache, t.launch, t.buffers, k.m, k.n, k.k, k.batch, k.query_tokens, k.cached_tokens, k.heads, k.kv_heads,
    k.head_dim, k.window_size, k.in_channels, k.out_channels, k.height, k.width, k.kernel_height, k.kernel_width, k.stride, k.padding, k.groups,
    k.tokens, k.hidden_size, k.inner_size, k.experts, k.top_k, k.tensor_parallel, k.expert_parallel, k.ranks, k.elements,
    k.rows, k.row_size, k.inputs, k.shape, k.distribution, k.split, k.part_of, k.mode, k.model_batch, k.model_sequence,
    k.calls, k.latency_ms, k.latency_stddev_ms, k.latency_min_ms, k.samples_n, coalesce(k.verdict, t.verdict) AS verdict,
    k.reason, t.origin, t.provenance_source, t.licence
FROM kernel AS k JOIN kernel_tables AS t USING (position);

-- name: models
-- Facts are counted by part before anything of the part is read.
SELECT
    model_id,
    arg_max(category, rank) FILTER (WHERE category IS NOT NULL) AS category,
    arg_max(family, rank) FILTER (WHERE family IS NOT NULL) AS family,
    arg_max(task, rank) FILTER (WHERE task IS NOT NULL) AS task,
    arg_max(parameters, rank) FILTER (WHERE parameters IS NOT NULL) AS parameters,
    arg_max(architecture, rank) FILTER (WHERE architecture IS NOT NULL) AS architecture,
    arg_max(config, rank) FILTER (WHERE config IS NOT NULL) AS config,
    list_sort(list(DISTINCT model_id_posted) FILTER (WHERE model_id_posted <> model_id)) AS other_names,
    sum(measurements)::BIGINT AS measurements,
    count(*) FILTER (WHERE kind = 'trace') AS traces,
    sum(tests)::BIGINT AS tests,
    min(first_position) AS first_position, max(position) AS last_position
FROM (
    -- What a description says beats what came along with a trace, and that what came along with a measurement.
    SELECT 'described' AS kind, {'b': 3, 'p': position} AS rank, position AS first_position, position, model_id,
        model_id_posted, category, family, task, parameters, architecture, config, 0 AS measurements, 0 AS tests FROM model
    UNION ALL
    SELECT 'trace', {'b': 2, 'p': position}, position, position, model_id, model_id_posted, category, family, task,
        parameters, architecture, NULL, 0, 0 FROM model_trace
    UNION ALL
    SELECT 'variant', {'b': 0, 'p': position}, position, position, model_id, model_id_posted, category, family, task,
        model_parameters, NULL, NULL, 0, 0 FROM variant ANTI JOIN void USING (position)
    UNION ALL
    SELECT 'fact', {'b': basis, 'p': last_position}, first_position, last_position, model_id, model_id_posted, category,
        family, task, parameters, architecture, NULL, measurements, tests
    FROM (
        SELECT 1 AS basis, min(subject) AS one, min(first_position) AS first_position, max(last_position) AS last_position,
            sum(measurements) AS measurements, 0 AS tests
        FROM standing JOIN subject ON standing.subject = subject.id GROUP BY model
        UNION ALL
        SELECT 0, min(subject), min(position), max(position), 0, count(*)
        FROM test ANTI JOIN void USING (position) JOIN subject ON test.subject = subject.id GROUP BY model
    ) JOIN subject ON one = subject.id
)
GROUP BY model_id;

-- name: hardware
SELECT
    hardware_id,
    arg_max(hardware_kind, rank) FILTER (WHERE hardware_kind IS NOT NULL) AS hardware_kind,
    max(hardware_count) AS hardware_count,
    arg_max(name, rank) FILTER (WHERE name IS NOT NULL) AS name,
    arg_max(vendor, rank) FILTER (WHERE vendor IS NOT NULL) AS vendor,
    arg_max(platforms, rank) FILTER (WHERE platforms IS NOT NULL) AS platforms,
    arg_max(spec, rank) FILTER (WHERE spec IS NOT NULL) AS spec,
    arg_max(environment_fingerprint, {'b': rank.b, 'p': environment_position})
        FILTER (WHERE environment_fingerprint IS NOT NULL) AS environment_fingerprint,
    list_sort(list(DISTINCT hardware_id_posted) FILTER (WHERE hardware_id_posted <> hardware_id)) AS other_names,
    bool_or(kind = 'described') AS described,
    sum(measurements)::BIGINT AS measurements,
    sum(measured)::BIGINT AS measured,
    sum(tests)::BIGINT AS tests,
    sum(kernels)::BIGINT AS kernels,
    min(first_position) AS first_position, max(position) AS last_position
FROM (
    SELECT 'described' AS kind, {'b': 1, 'p': position} AS rank, position AS first_position, position, hardware_id,
        hardware_id_posted, hardware_kind, hardware_count, name, vendor, platforms, spec,
        position AS environment_position, environment_fingerprint, 0 AS measurements, 0 AS measured, 0 AS tests, 0 AS kernels
    FROM hardware_description
    UNION ALL
    SELECT 'fact', {'b': 0, 'p': max(position)}, min(position), max(position), hardware_id, hardware_id_posted,
        any_value(hardware_kind), hardware_count, NULL, NULL, NULL, NULL,
        max(position) FILTER (WHERE environment_fingerprint IS NOT NULL),
        arg_max(environment_fingerprint, position) FILTER (WHERE environment_fingerprint IS NOT NULL), 0, 0, 0, sum(timings)
    FROM kernel_tables GROUP BY hardware_id, hardware_id_posted, hardware_count
    UNION ALL
    SELECT 'fact', {'b': 0, 'p': last_position}, first_position, last_position, hardware_id, hardware_id_posted,
        hardware_kind, hardware_count, NULL, NULL, NULL, NULL, environment_position, environment_fingerprint, measurements,
        measured, tests, 0
    FROM (
        SELECT min(subject) AS one, min(first_position) AS first_position, max(last_position) AS last_position,
            max(environment_position) AS environment_position,
            arg_max(environment_fingerprint, environment_position) AS environment_fingerprint,
            sum(measurements) AS measurements,
            -- What was measured at an endpoint was not seen: its hardware is what somebody stated.
            coalesce(sum(measured) FILTER (WHERE device IS DISTINCT FROM 'stated'), 0) AS measured, 0 AS tests
        FROM standing JOIN subject ON standing.subject = subject.id GROUP BY hardware
        UNION ALL
        SELECT min(subject), min(position), max(position),
            max(position) FILTER (WHERE environment_fingerprint IS NOT NULL),
            arg_max(environment_fingerprint, position) FILTER (WHERE environment_fingerprint IS NOT NULL), 0, 0, count(*)
        FROM test ANTI JOIN void USING (position)
        JOIN subject ON test.subject = subject.id JOIN context ON test.context = context.id GROUP BY hardware
    ) JOIN subject ON one = subject.id
)
GROUP BY hardware_id;

-- name: environments
SELECT * FROM environment;

-- name: compatibility_by_hardware
-- `reached`: at which stage it ended, counted from 1 (resolve) to 7 (verify); 7 where it ran, 8 where a test found its outputs right.
-- A case that was skipped says nothing of what works, and one whose platform was not on the machine nothing beside what others say.
-- Where another device or precision did the work, that which was asked for did not run. `right` is what a test says of the
-- outputs: 2 right, 0 wrong, 1 neither, because it ended before they were compared or compares none, as those of the earlier framework.
SELECT
    model_id, hardware_id, platform, precision,
    arg_max(category, position) FILTER (WHERE category IS NOT NULL) AS category,
    arg_max(family, position) FILTER (WHERE family IS NOT NULL) AS family,
    bool_or(reached >= 5) AS built,
    bool_or(reached >= 7) AS ran,
    CASE arg_max("right", position) FILTER (WHERE "right" IS NOT NULL) WHEN 2 THEN true WHEN 0 THEN false END AS verified,
    bool_or(usable) AS measured,
    CASE
        WHEN NOT ran THEN arg_max(why, {'b': reached, 'p': position}) FILTER (WHERE why IS NOT NULL)
        WHEN NOT verified THEN arg_max(why, position) FILTER (WHERE why IS NOT NULL AND kind = 'test')
        WHEN NOT measured THEN coalesce(
            arg_max(why, {'b': reached, 'p': position}) FILTER (WHERE why IS NOT NULL AND kind = 'failure'),
            'every measurement is invalid')
    END AS why_not,
    coalesce(sum(measurements), 0)::BIGINT AS measurements,
    count(*) FILTER (WHERE kind = 'test') AS tests,
    count(*) FILTER (WHERE kind = 'failure') AS failures,
    arg_max(outcome, {'b': there, 'p': position}) AS outcome,
    arg_max(stage, {'b': there, 'p': position}) AS stage,
    arg_max(error, {'b': there, 'p': position}) FILTER (WHERE outcome <> 'passed') AS error,
    arg_max(message, {'b': there, 'p': position}) FILTER (WHERE outcome <> 'passed') AS message,
    arg_max(remedy, {'b': there, 'p': position}) FILTER (WHERE outcome <> 'passed') AS remedy,
    arg_max(event_id, {'b': there, 'p': position}) AS evidence,
    max(position) AS position
FROM (
    SELECT 'measurement' AS kind, genuine_position AS position, genuine_event::VARCHAR AS event_id, model_id, hardware_id,
        platform, precision, category, family, 'passed' AS outcome, 'run' AS stage, NULL AS error, NULL AS message,
        NULL AS remedy, timed AS measurements, 7 AS reached, CASE WHEN timed > 0 THEN best IS NOT NULL END AS usable, NULL AS why, NULL AS "right",
        true AS there
    FROM standing JOIN subject ON standing.subject = subject.id WHERE genuine > 0
    UNION ALL
    SELECT kind, position, event_id, model_id, hardware_id,
        CASE error WHEN 'Fallback' THEN platform_asked ELSE platform END,
        CASE error WHEN 'Fallback' THEN coalesce(precision_asked, precision) ELSE precision END, category, family,
        outcome, stage, error, message, remedy, 0,
        CASE WHEN outcome = 'passed' THEN CASE WHEN compares THEN 8 WHEN ended_at >= 5 THEN 7 ELSE ended_at + 1 END WHEN outcome = 'skipped' THEN NULL WHEN error = 'Fallback' THEN 6 ELSE ended_at END,
        CASE WHEN kind = 'failure' AND outcome <> 'skipped' THEN false END,
        CASE WHEN outcome NOT IN ('passed', 'skipped') THEN
            concat(outcome, ' at ', stage, ': ', split_part(coalesce(nullif(message, ''), error), chr(10), 1)) END,
        CASE WHEN kind <> 'test' OR outcome = 'skipped' OR NOT there THEN NULL
            WHEN compares AND outcome = 'passed' THEN 2 WHEN compares AND outcome = 'failed' THEN 0 ELSE 1 END,
        there
    FROM (
        SELECT *, list_position(['resolve', 'load', 'convert', 'compile', 'first_run', 'run', 'verify'], stage) AS ended_at,
            stage = 'verify' AND coalesce(test, '') NOT IN ('skill', 'functionality', 'integration') AS compares,
            error IS DISTINCT FROM 'PlatformUnavailable' AS there
        FROM outcomes WHERE origin NOT IN ('page', 'simulated')
    )
)
GROUP BY model_id, hardware_id, platform, precision;

-- name: compatibility
SELECT
    model_id, platform, precision,
    arg_max(category, position) FILTER (WHERE category IS NOT NULL) AS category,
    arg_max(family, position) FILTER (WHERE family IS NOT NULL) AS family,
    bool_or(built) AS built, bool_or(ran) AS ran, bool_or(verified) AS verified, bool_or(measured) AS measured,
    CASE WHEN false IN (bool_or(ran), bool_or(verified), bool_or(measured)) THEN
        arg_max(why_not, {'b': [built, ran, verified], 'p': position}) FILTER (WHERE why_not IS NOT NULL) END AS why_not,
    sum(measurements)::BIGINT AS measurements, sum(tests)::BIGINT AS tests, sum(failures)::BIGINT AS failures,
    arg_max(outcome, {'b': there, 'p': position}) AS outcome, arg_max(stage, {'b': there, 'p': position}) AS stage,
    arg_max(error, {'b': there, 'p': position}) FILTER (WHERE error IS NOT NULL) AS error,
    arg_max(message, {'b': there, 'p': position}) FILTER (WHERE message IS NOT NULL) AS message,
    arg_max(remedy, {'b': there, 'p': position}) FILTER (WHERE remedy IS NOT NULL) AS remedy,
    list_sort(list(hardware_id)) AS hardware,
    arg_max(evidence, {'b': there, 'p': position}) AS evidence, max(position) AS position
FROM (SELECT *, outcome = 'passed' OR error IS DISTINCT FROM 'PlatformUnavailable' AS there FROM compatibility_by_hardware)
GROUP BY model_id, platform, precision;

-- name: matrix
SELECT
    model_id, platform,
    arg_max(category, position) FILTER (WHERE category IS NOT NULL) AS category,
    arg_max(family, position) FILTER (WHERE family IS NOT NULL) AS family,
    bool_or(built) AS built, bool_or(ran) AS ran, bool_or(verified) AS verified, bool_or(measured) AS measured,
    CASE WHEN false IN (bool_or(ran), bool_or(verified), bool_or(measured)) THEN
        arg_max(concat_ws(': ', precision, why_not), {'b': [built, ran, verified], 'p': position})
            FILTER (WHERE why_not IS NOT NULL) END AS why_not,
    list_sort(coalesce(list(precision) FILTER (WHERE ran AND precision IS NOT NULL), [])) AS precisions,
    sum(measurements)::BIGINT AS measurements, sum(tests)::BIGINT AS tests, sum(failures)::BIGINT AS failures,
    list_sort(list_distinct(flatten(list(hardware)))) AS hardware,
    arg_max(evidence, position) AS evidence, max(position) AS position
FROM compatibility
GROUP BY model_id, platform;

-- name: cells
-- The work of two rows is the same where they were asked for the same, in every size. The baseline is the plain CPU at its
-- best, in whatever precision: of the same hardware, or where that has none, of any, so that nothing is flattered. What is
-- not materialized is read for the models that are asked for alone: a third of the time for one, half of it for all.
WITH fast AS NOT MATERIALIZED (
    SELECT model_id, hardware_id, platform, precision, compiled, workload::VARCHAR AS work, event_id::VARCHAR AS event,
        coalesce(throughput_per_s, 1000 * batch_size / nullif(coalesce(latency_p50_ms, latency_mean_ms), 0)) AS speed
    FROM best JOIN measurement USING (position)
    WHERE batch_size IS NOT NULL AND coalesce(fallback_share, 0) <= 0.1 AND speed > 0
), plain AS NOT MATERIALIZED (
    SELECT model_id, work, hardware_id, max(speed) AS speed, arg_max(event, speed) AS event
    FROM fast WHERE platform = 'cpu' AND NOT coalesce(compiled, false) GROUP BY model_id, work, hardware_id
), anywhere AS NOT MATERIALIZED (
    SELECT model_id, work, max(speed) AS speed, arg_max(event, speed) AS event FROM plain GROUP BY model_id, work
), gain AS (
    SELECT fast.model_id, fast.platform, fast.precision, fast.work,
        max({'factor': fast.speed / coalesce(plain.speed, anywhere.speed),
            'events': [fast.event, coalesce(plain.event, anywhere.event)]}) AS most
    FROM fast JOIN anywhere ON fast.model_id = anywhere.model_id AND fast.work = anywhere.work
    LEFT JOIN plain ON fast.model_id = plain.model_id AND fast.work = plain.work AND fast.hardware_id = plain.hardware_id
    WHERE fast.platform <> 'cpu' GROUP BY fast.model_id, fast.platform, fast.precision, fast.work
), gained AS (
    SELECT model_id, platform, precision, median(most.factor) AS speedup, max(most.factor) AS speedup_best, count(*) AS works,
        max(most).events AS speedup_evidence
    FROM gain GROUP BY model_id, platform, precision
), facts AS (
    SELECT model_id, platform, precision, 'measurement' AS kind, position, event_id::VARCHAR AS event,
        coalesce(time, recorded_at) AS seen, run_id, fallback_share, NULL AS why
    FROM measurement ANTI JOIN void USING (position)
    JOIN subject ON measurement.subject = subject.id JOIN context ON measurement.context = context.id
    WHERE origin NOT IN ('page', 'simulated')
    UNION ALL
    SELECT model_id, CASE error WHEN 'Fallback' THEN platform_asked ELSE platform END,
        CASE error WHEN 'Fallback' THEN coalesce(precision_asked, precision) ELSE precision END, kind, position, event_id,
        coalesce(time, recorded_at), run_id, NULL,
        CASE WHEN outcome NOT IN ('passed', 'skipped') THEN {
            'reached': list_position(['resolve', 'load', 'convert', 'compile', 'first_run', 'run', 'verify'], stage),
            'position': position, 'outcome': outcome, 'stage': stage, 'error': error,
            'message': split_part(message, chr(10), 1), 'remedy': remedy} END
    FROM outcomes WHERE origin NOT IN ('page', 'simulated')
), tally AS (
    SELECT model_id, platform, precision, coalesce(max(seen) FILTER (WHERE why.error IS DISTINCT FROM 'PlatformUnavailable'),
            max(seen)) AS last_seen, count(DISTINCT run_id) AS runs,
        min(coalesce(fallback_share, 0)) FILTER (WHERE kind = 'measurement') AS fallback_share, max(why) AS why,
        list_filter([
            arg_max(event, position) FILTER (WHERE kind = 'test'), arg_max(event, position) FILTER (WHERE kind = 'failure'),
            arg_max(event, position) FILTER (WHERE kind = 'measurement')
        ], lambda one: one IS NOT NULL) AS evidence_ids
    FROM facts GROUP BY model_id, platform, precision
)
SELECT compatibility.*, last_seen, runs, fallback_share, why.outcome AS stopped_outcome, why.stage AS stopped_stage,
    why.error AS stopped_error, why.message AS stopped_message, why.remedy AS stopped_remedy, speedup, speedup_best,
    coalesce(works, 0) AS speedup_works, coalesce(speedup_evidence, []) AS speedup_evidence, evidence_ids
FROM compatibility
LEFT JOIN tally ON compatibility.model_id = tally.model_id AND compatibility.platform = tally.platform
    AND compatibility.precision IS NOT DISTINCT FROM tally.precision
LEFT JOIN gained ON compatibility.model_id = gained.model_id AND compatibility.platform = gained.platform
    AND compatibility.precision IS NOT DISTINCT FROM gained.precision;

-- name: prices
SELECT * FROM price
QUALIFY row_number() OVER (
    PARTITION BY hardware_id, hardware_count, provider, instance, region, spot ORDER BY date DESC, position DESC
) = 1;

-- name: operations
SELECT * FROM operation;

-- name: retractions
SELECT retraction.*, undo.position AS undone_position FROM retraction LEFT JOIN (
    SELECT target_event_id AS event_id, min(position) AS position FROM retraction GROUP BY target_event_id
) AS undo USING (event_id);

-- name: aliases
-- Every declaration; chains are followed by whoever resolves a name.
SELECT *, position = max(position) OVER (PARTITION BY kind, alias) AS in_force FROM alias;

-- name: predictors
-- In force is what was accepted or chosen last.
SELECT *, coalesce(position = (
    SELECT max(position) FROM predictor WHERE digest = (
        SELECT max_by(digest, position) FROM (
            SELECT digest, position FROM predictor WHERE accepted UNION ALL SELECT digest, position FROM predictor_choice
        )
    )
), false) AS in_force
FROM predictor;

-- name: predictor_choices
SELECT * FROM predictor_choice;

-- name: recommendations
SELECT
    position, event_id, source, time, recorded_at, recommendation, answered_at_position,
    answer->>'$.model' AS model_id, question->>'$.mode' AS mode, question->>'$.objective' AS objective,
    answer->>'$.predictor' AS predictor, json_array_length(answer, '$.ranked')::BIGINT AS options,
    answer->>'$.abstained' AS abstained, question, answer
FROM recommendation;

-- name: predictions
SELECT
    position, event_id, source, time, recorded_at, recommendation, answered_at_position, model_id, mode, objective, percentile,
    predictor, interval_coverage, one.rank, one.configuration, one.hardware AS hardware_id, one.hardware_count, one.platform,
    one.precision, one.batch_size, one.sequence_length, one.image_size, one.basis, one.origin, one.latency_ms,
    one.latency_ms_low AS latency_low_ms, one.latency_ms_high AS latency_high_ms, one.latency_is_mean, one.interval_covered,
    one.throughput_per_s, one.peak_memory_bytes, one.energy_j, one.usd_per_hour, one.verdict, one.evidence, one.why,
    prediction, one.images, one.audio_seconds, one.frames, one.input_tokens, one.output_tokens, one.steps, one.concurrency,
    one.runtime AS runtime_name, one.runtime_version, one.compiled, one.layout,
    one.memory_low_bytes, one.memory_high_bytes,
    one.ttft_ms, one.ttft_ms_low AS ttft_low_ms, one.ttft_ms_high AS ttft_high_ms,
    one.tpot_ms, one.tpot_ms_low AS tpot_low_ms, one.tpot_ms_high AS tpot_high_ms,
    one.energy_j_low AS energy_low_j, one.energy_j_high AS energy_high_j
FROM (
    SELECT
        position, event_id, source, time, recorded_at, recommendation, prediction, answered_at_position,
        answer->>'$.model' AS model_id,
        question->>'$.mode' AS mode, question->>'$.objective' AS objective, question->>'$.percentile' AS percentile,
        answer->>'$.predictor' AS predictor, try_cast(answer->>'$.interval' AS DOUBLE) AS interval_coverage,
        unnest(from_json(ranked, '[{
            "rank": "BIGINT", "configuration": "VARCHAR", "hardware": "VARCHAR", "hardware_count": "BIGINT", "platform": "VARCHAR",
            "precision": "VARCHAR", "batch_size": "BIGINT", "sequence_length": "BIGINT", "image_size": "BIGINT", "basis": "VARCHAR",
            "origin": "VARCHAR", "latency_ms": "DOUBLE", "latency_ms_low": "DOUBLE", "latency_ms_high": "DOUBLE",
            "latency_is_mean": "BOOLEAN", "interval_covered": "BOOLEAN", "throughput_per_s": "DOUBLE",
            "peak_memory_bytes": "BIGINT", "energy_j": "DOUBLE", "usd_per_hour": "DOUBLE", "verdict": "VARCHAR",
            "evidence": ["VARCHAR"], "why": "VARCHAR", "images": "BIGINT", "audio_seconds": "DOUBLE", "frames": "BIGINT",
            "input_tokens": "BIGINT", "output_tokens": "BIGINT", "steps": "BIGINT", "concurrency": "BIGINT", "runtime": "VARCHAR",
            "runtime_version": "VARCHAR", "compiled": "BOOLEAN", "layout": "VARCHAR", "memory_low_bytes": "BIGINT",
            "memory_high_bytes": "BIGINT", "ttft_ms": "DOUBLE", "ttft_ms_low": "DOUBLE", "ttft_ms_high": "DOUBLE",
            "tpot_ms": "DOUBLE", "tpot_ms_low": "DOUBLE", "tpot_ms_high": "DOUBLE", "energy_j_low": "DOUBLE",
            "energy_j_high": "DOUBLE"}]')) AS one
    FROM (
        SELECT position, event_id, source, time, recorded_at, recommendation, NULL::VARCHAR AS prediction, answered_at_position,
            question, answer, json_extract(answer, '$.ranked') AS ranked
        FROM recommendation
        UNION ALL
        SELECT position, event_id, source, time, recorded_at, NULL, prediction, answered_at_position,
            question, answer, ('[' || answer || ']')::JSON
        FROM prediction WHERE answer->>'$.basis' <> 'abstained'
    )
);

-- name: scored_predictions
-- A prediction is of every configuration that has all that it says: what it leaves open (threads, versions) may be anything.
-- Names are followed to what they stand for now, so that an alias declared since the answer finds the measurements as well.
SELECT
    position, event_id, recorded_at, recommendation, prediction, rank, predictor, basis, model_id, category, family, hardware_id,
    hardware_kind, platform, precision, mode, batch_size, configuration, runtime_name, runtime_version, origin, target,
    predicted, low, high, interval_coverage, interval_covered, measured_position, measured_event_id, measured_recorded_at,
    measured, ln(predicted / measured) AS log_error, measured BETWEEN low AND high AS within,
    epoch(measured_recorded_at) - epoch(recorded_at) AS age_s,
    row_number() OVER (PARTITION BY position, rank, target ORDER BY measured_position) AS nth
FROM (
    SELECT
        g.position, g.event_id, g.recorded_at, g.recommendation, g.prediction, g.rank, g.predictor, g.basis, s.model_id,
        s.category, s.family, s.hardware_id, s.hardware_kind, s.platform, s.precision, s.mode, s.batch_size, s.configuration,
        s.runtime_name, s.runtime_version, c.origin, g.target.name AS target, g.target.predicted AS predicted,
        g.target.low AS low, g.target.high AS high, g.interval_coverage,
        -- What an answer says of its interval, it says of times.
        coalesce(g.interval_covered AND g.target.name IN ('latency', 'ttft', 'tpot'), false) AS interval_covered,
        m.position AS measured_position, m.event_id::VARCHAR AS measured_event_id, m.recorded_at AS measured_recorded_at,
        CASE g.target.name
            WHEN 'latency' THEN coalesce(
                m.latency_p50_ms, m.latency_mean_ms, 1000 * s.batch_size / nullif(m.throughput_per_s, 0))
            WHEN 'memory' THEN coalesce(m.device_memory_bytes, m.peak_memory_bytes)
            WHEN 'ttft' THEN m.ttft_ms WHEN 'tpot' THEN m.tpot_ms WHEN 'energy' THEN m.energy_j
        END AS measured
    FROM (
        SELECT *, unnest([
            {'name': 'latency', 'predicted': latency_ms, 'low': latency_low_ms, 'high': latency_high_ms},
            {'name': 'memory', 'predicted': peak_memory_bytes::DOUBLE, 'low': memory_low_bytes::DOUBLE,
                'high': memory_high_bytes::DOUBLE},
            {'name': 'ttft', 'predicted': ttft_ms, 'low': ttft_low_ms, 'high': ttft_high_ms},
            {'name': 'tpot', 'predicted': tpot_ms, 'low': tpot_low_ms, 'high': tpot_high_ms},
            {'name': 'energy', 'predicted': energy_j, 'low': energy_low_j, 'high': energy_high_j}]) AS target
        FROM predictions
        WHERE basis NOT IN ('measured', 'imported') AND coalesce(percentile, 'p50') = 'p50'
    ) AS g
    LEFT JOIN (SELECT DISTINCT model_id_posted, model_id FROM subject) AS model_now ON g.model_id = model_now.model_id_posted
    LEFT JOIN (SELECT DISTINCT hardware_id_posted, hardware_id FROM subject) AS hardware_now
        ON g.hardware_id = hardware_now.hardware_id_posted
    JOIN subject AS s ON s.model_id = coalesce(model_now.model_id, g.model_id)
        AND s.hardware_id = coalesce(hardware_now.hardware_id, g.hardware_id)
        AND s.platform = g.platform AND s.precision = g.precision
        -- Of what is served the requests under way are asked for, and the batch is the engine's affair.
        AND (s.batch_size = g.batch_size OR (g.batch_size IS NULL AND g.concurrency IS NOT NULL AND s.scenario = 'serving'))
        AND s.mode = coalesce(g.mode, 'inference') AND s.hardware_count = coalesce(g.hardware_count, 1)
        AND coalesce(s.compiled, false) = coalesce(g.compiled, false)
        AND (lower(coalesce(s.layout, '')) IN ('nhwc', 'channels_last')) = (lower(coalesce(g.layout, '')) IN ('nhwc', 'channels_last'))
    JOIN measurement AS m ON m.subject = s.id
    JOIN context AS c ON m.context = c.id
    JOIN judgement AS j ON m.judgement = j.id
    WHERE g.target.predicted > 0 AND m.position > g.position AND m.position NOT IN (SELECT position FROM void)
        AND (g.runtime_name IS NULL OR s.runtime_name = g.runtime_name)
        AND s.sequence_length IS NOT DISTINCT FROM g.sequence_length AND s.image_size IS NOT DISTINCT FROM g.image_size
        AND s.images IS NOT DISTINCT FROM g.images AND s.audio_seconds IS NOT DISTINCT FROM g.audio_seconds
        AND s.frames IS NOT DISTINCT FROM g.frames AND s.input_tokens IS NOT DISTINCT FROM g.input_tokens
        AND s.output_tokens IS NOT DISTINCT FROM g.output_tokens AND s.steps IS NOT DISTINCT FROM g.steps
        AND s.concurrency IS NOT DISTINCT FROM g.concurrency
        AND (g.concurrency IS NOT NULL OR coalesce(s.scenario, 'single_stream') IN ('single_stream', 'offline'))
        -- What may train may judge.
        AND coalesce(s.fallback_share, 0) = 0
        AND CASE WHEN g.target.name = 'energy' AND coalesce(j.metric_verdicts::VARCHAR, '{}') <> '{}'
            THEN coalesce(j.energy_verdict, 'suspect') ELSE coalesce(j.verdict, 'valid') END
            IN ('valid', CASE WHEN c.origin = 'imported' THEN 'suspect' END)
        AND c.origin IN ('measured', 'imported')
)
WHERE measured > 0;

-- name: baselines
SELECT name, branch, named_position, start_branch, start_position, hardware_id, note, position, event_id, source, time, recorded_at
FROM (FROM baseline QUALIFY row_number() OVER (PARTITION BY name ORDER BY position DESC) = 1)
WHERE NOT withdrawn;

-- name: snapshots
SELECT name, named_position, note, position, event_id, source, time, recorded_at
FROM (FROM snapshot QUALIFY row_number() OVER (PARTITION BY name ORDER BY position DESC) = 1)
WHERE NOT withdrawn;

-- name: alerts
-- A change that went and came again holds. An alert of which nothing holds any more keeps what it was about. Raised after it
-- was withdrawn, it is new. An event that takes changes away and withdraws nothing leaves the state as it is.
WITH listed AS (
    SELECT alert, position, change, change->>'$.id' AS id FROM (
        SELECT alert, position, unnest(from_json(changes, '["JSON"]')) AS change FROM alert_raised
    )
), gone AS (
    SELECT alert, id, max(position) AS position FROM (
        SELECT alert, position, unnest(from_json(gone, '["VARCHAR"]')) AS id FROM alert_changed
    ) GROUP BY alert, id
), held AS (
    SELECT alert, id, arg_max(change, listed.position) AS change,
        coalesce(max(listed.position) > any_value(gone.position), true) AS holds
    FROM listed LEFT JOIN gone USING (alert, id) GROUP BY alert, id
), weighed AS (
    SELECT alert, id, change, holds, (change->>'$.change')::DOUBLE AS size,
        CASE WHEN change->>'$.kind' = 'functional' OR size <= -1 THEN 'infinity'::DOUBLE ELSE abs(ln(1 + size)) END AS severity
    FROM held
), summary AS (
    SELECT alert, arg_max(size, severity) AS worst_change, max(severity) AS severity,
        count(DISTINCT change->>'$.alike') AS configurations,
        list_sort(list(DISTINCT change->>'$.model')) AS models, list_sort(list(DISTINCT change->>'$.hardware')) AS hardware,
        to_json(list(change ORDER BY severity DESC, id)) AS changes
    FROM weighed WHERE holds OR alert NOT IN (SELECT alert FROM weighed WHERE holds) GROUP BY alert
), raised AS (
    SELECT alert, min(position) AS position, arg_min(event_id, position) AS event_id, arg_min(source, position) AS source,
        arg_min(time, position) AS time, arg_min(recorded_at, position) AS recorded_at, max(position) AS last_position,
        max(recorded_at) AS last_at, arg_max(title, position) AS title, arg_max(direction, position) AS direction,
        arg_max(kind, position) AS kind, arg_max(cause, position) FILTER (WHERE cause IS NOT NULL) AS cause,
        list(event_id ORDER BY position) AS event_ids
    FROM alert_raised GROUP BY alert
), changed AS (
    SELECT alert, arg_max(state, position) FILTER (WHERE state = 'withdrawn' OR coalesce(json_array_length(gone), 0) = 0) AS state,
        max(position) AS last_position, max(recorded_at) AS last_at,
        to_json(list({'state': state, 'author': author, 'reason': reason,
            'time': strftime(coalesce(time, recorded_at) AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%fZ'),
            'event_id': event_id} ORDER BY position)) AS states
    FROM alert_changed GROUP BY alert
)
SELECT
    alert, CASE WHEN changed.state = 'withdrawn' AND raised.last_position > changed.last_position THEN 'new'
        ELSE coalesce(changed.state, 'new') END AS state,
    raised.title, raised.direction, raised.kind, summary.worst_change, summary.severity, summary.configurations,
    summary.models, summary.hardware, raised.cause, summary.changes, coalesce(changed.states, '[]'::JSON) AS states,
    raised.event_ids, greatest(raised.last_position, changed.last_position) AS last_position,
    greatest(raised.last_at, changed.last_at) AS changed_at,
    raised.position, raised.event_id, raised.source, raised.time, raised.recorded_at
FROM raised JOIN summary USING (alert) LEFT JOIN changed USING (alert);

-- name: jobs
-- A job that was requested again waits again, with further attempts. What it was about is said by its first request.
WITH requested AS (
    SELECT job, min(position) AS position, arg_min(event_id, position) AS event_id, arg_min(source, position) AS source,
        arg_min(time, position) AS time, arg_min(recorded_at, position) AS recorded_at,
        arg_min(submission, position) AS submission, arg_min(name, position) AS submission_name,
        arg_min(title, position) AS title, arg_min(needs, position) AS needs, arg_min(priority, position) AS priority,
        arg_max(attempts, position) AS attempts, arg_min(author, position) AS author,
        arg_min(schedule, position) AS schedule, arg_min(not_before, position) AS not_before, arg_min(plan, position) AS plan,
        max(position) AS last_position, max(recorded_at) AS last_at
    FROM job_requested GROUP BY job
), changed AS (
    SELECT job, max(attempt) AS attempt, arg_max(state, position) AS state, max(position) AS last_position,
        max(recorded_at) AS last_at, arg_max(coalesce(time, recorded_at), position) AS since,
        arg_max_null(reason, position) AS reason, arg_max_null(exit_code, position) AS exit_code,
        arg_max(worker, position) FILTER (WHERE state = 'running') AS worker,
        arg_max(device, position) FILTER (WHERE state = 'running') AS device,
        arg_max(hardware, position) FILTER (WHERE state = 'running') AS hardware,
        arg_max(coalesce(time, recorded_at), position) FILTER (WHERE state = 'running') AS started_at,
        flatten(list(run_ids ORDER BY position) FILTER (WHERE run_ids IS NOT NULL)) AS run_ids
    FROM job_changed GROUP BY job
), joined AS (
    SELECT requested.* EXCLUDE (last_position, last_at), changed.* EXCLUDE (job, state, last_position, last_at),
        greatest(requested.last_position, changed.last_position) AS last_position,
        greatest(requested.last_at, changed.last_at) AS changed_at,
        CASE WHEN changed.last_position > requested.last_position THEN changed.state ELSE 'waiting' END AS state,
        coalesce(changed.last_position > requested.last_position, false) AS newest
    FROM requested LEFT JOIN changed USING (job)
)
SELECT
    job, submission, submission_name, title, state, needs, priority, coalesce(attempt, 0) AS attempt, attempts, worker, hardware,
    device, coalesce(time, recorded_at) AS requested_at, not_before, started_at,
    CASE WHEN state IN ('succeeded', 'failed', 'cancelled') THEN since END AS ended_at,
    CASE WHEN newest THEN reason END AS reason, author, schedule, coalesce(run_ids, []) AS run_ids,
    CASE WHEN newest THEN exit_code END AS exit_code, plan, last_position, changed_at,
    position, event_id, source, time, recorded_at
FROM joined;

-- name: variants
-- The newest event about a variant counts; it has a row for each form.
SELECT
    position, event_id::VARCHAR AS event_id, source, time, recorded_at, run_id, model_id, model_id_posted, base_id, base_id_posted,
    category, family, weights, recipe, form, precision, quantization, bytes, total_bytes, base_bytes, digest, base_digest,
    parameters, tools, calibration_name, calibration_digest, calibration_examples, environment_fingerprint,
    origin, provenance_source, reference, licence
FROM variant ANTI JOIN void USING (position)
QUALIFY rank() OVER (PARTITION BY model_id ORDER BY position DESC) = 1;

-- name: quality
SELECT
    position, event_id::VARCHAR AS event_id, source, time, recorded_at, run_id, model_id, model_id_posted, base_id, base_id_posted,
    hardware_id, hardware_id_posted, hardware_kind, hardware_count, platform, precision, runtime_name, runtime_version,
    compiled, options, metric, unit, direction, examples, value, base_value, loss, loss_low, loss_high, method, worse,
    better, p_value, evaluator, data_name, data_digest, data_examples, distance_cosine, distance_max_absolute,
    environment_fingerprint, origin, provenance_source, reference, licence
FROM quality_comparison ANTI JOIN void USING (position)
QUALIFY row_number() OVER (
    PARTITION BY model_id, base_id, hardware_id, hardware_count, platform, precision, runtime_name, runtime_version, compiled,
        options::VARCHAR, metric, evaluator, data_digest
    ORDER BY position DESC
) = 1;

-- name: endpoints
-- What an event does not say stays as it was said before.
SELECT
    endpoint, server,
    CASE arg_max(change, position) FILTER (WHERE change <> 'scaled')
        WHEN 'created' THEN 'creating' WHEN 'failed-over' THEN 'ready'
        ELSE arg_max(change, position) FILTER (WHERE change <> 'scaled') END AS state,
    arg_max(model_id, position) AS model_id, arg_max(model_id_posted, position) AS model_id_posted,
    arg_max(platform, position) FILTER (WHERE platform IS NOT NULL) AS platform,
    arg_max(precision, position) FILTER (WHERE platform IS NOT NULL) AS precision,
    arg_max(hardware_id, position) FILTER (WHERE hardware_id IS NOT NULL) AS hardware_id,
    arg_max(workers, position) FILTER (WHERE workers IS NOT NULL) AS workers,
    arg_max(memory_bytes, position) FILTER (WHERE memory_bytes IS NOT NULL) AS memory_bytes,
    arg_max_null(reason, position) AS reason,
    arg_max(promise_latency_ms, position) FILTER (WHERE promise_latency_ms IS NOT NULL) AS promise_latency_ms,
    arg_max(promise_low_ms, position) FILTER (WHERE promise_latency_ms IS NOT NULL) AS promise_low_ms,
    arg_max(promise_high_ms, position) FILTER (WHERE promise_latency_ms IS NOT NULL) AS promise_high_ms,
    arg_max(promise_coverage, position) FILTER (WHERE promise_latency_ms IS NOT NULL) AS promise_coverage,
    arg_max(promise_origin, position) FILTER (WHERE promise_latency_ms IS NOT NULL) AS promise_origin,
    arg_max(promise_percentile, position) FILTER (WHERE promise_latency_ms IS NOT NULL) AS promise_percentile,
    arg_max_null(recommendation, position) FILTER (WHERE promise_latency_ms IS NOT NULL) AS recommendation,
    arg_min(coalesce(time, recorded_at), position) AS first_at, arg_max(coalesce(time, recorded_at), position) AS changed_at,
    count(*) AS changes,
    min(position) AS position, max(position) AS last_position, arg_max(event_id, position)::VARCHAR AS event_id,
    arg_max(source, position) AS source
FROM endpoint_change ANTI JOIN void USING (position)
GROUP BY endpoint, server;

-- name: deliveries
SELECT * REPLACE (event_id::VARCHAR AS event_id),
    CASE promise_percentile WHEN 'p50' THEN latency_p50_ms WHEN 'p90' THEN latency_p90_ms WHEN 'p95' THEN latency_p95_ms
        WHEN 'p99' THEN latency_p99_ms WHEN 'mean' THEN latency_mean_ms END AS delivered_ms
FROM delivery ANTI JOIN void USING (position);

-- name: dead_letters
SELECT * FROM dead_letter;

-- name: state
SELECT position, 2 AS schema_version FROM projection;
