-- The stable views: what people and programs query. reference.toml describes each. Retracted rows are not in them.

-- name: measurements
SELECT
    m.position, m.event_id::VARCHAR AS event_id, c.source, m.time, m.recorded_at, c.run_id, s.configuration,
    s.model_id, s.model_id_posted, s.category, s.family, s.architecture, s.task, s.revision, s.parameters, s.weights,
    s.hardware_id, s.hardware_id_posted, s.hardware_kind, s.hardware_count,
    s.mode, s.scenario, s.batch_size, s.sequence_length, s.image_size, s.images, s.audio_seconds, s.frames, s.input_tokens,
    s.output_tokens, s.concurrency, s.arrival_rate_per_s, s.optimizer, s.gradient_checkpointing,
    s.platform, s.precision, s.platform_asked, s.precision_asked, s.device, s.device_asked, s.fallback_share,
    s.runtime_name, s.runtime_version, s.compiled, s.layout, s.threads, s.streams, s.parallelism, s.power_limit_w, s.options,
    s.workload, s.execution, c.environment_fingerprint,
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
    m.peak_memory_bytes, m.mean_memory_bytes, m.device_memory_bytes, m.kv_cache_bytes, m.energy_j, m.power_w, m.utilisation,
    m.goodput_per_s, m.roofline_share, m.samples_n, m.stopped_by, m.other_load, m.clock_before_hz, m.clock_after_hz,
    j.verdict, j.verdict_reasons, j.metric_verdicts,
    c.origin, c.provenance_source, c.reference, c.licence
FROM measurement AS m ANTI JOIN void USING (position)
JOIN subject AS s ON m.subject = s.id JOIN context AS c ON m.context = c.id JOIN judgement AS j ON m.judgement = j.id;

-- name: outcomes
SELECT
    t.position, t.event_id::VARCHAR AS event_id, c.source, t.time, t.recorded_at, c.run_id, s.configuration,
    s.model_id, s.model_id_posted, s.category, s.family, s.architecture, s.task, s.revision, s.parameters, s.weights,
    s.hardware_id, s.hardware_id_posted, s.hardware_kind, s.hardware_count,
    s.mode, s.scenario, s.batch_size, s.sequence_length, s.image_size, s.images, s.audio_seconds, s.frames, s.input_tokens,
    s.output_tokens, s.concurrency, s.arrival_rate_per_s, s.optimizer, s.gradient_checkpointing,
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

-- name: runs
SELECT
    run.run_id, run.position, run.event_id, run.source, run.time AS started_at, run.recorded_at, run.kind, run.hardware,
    run.environment_fingerprint, run.plan, run.planned, run.origin, run.provenance_source, run.reference, run.licence,
    last.position AS finished_position, last.time AS finished_at, last.outcome, last.measured, last.failed, last.tests,
    last.reason, void.reason AS retracted_because
FROM (FROM run QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY position) = 1) AS run
LEFT JOIN (FROM run_end QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY position DESC) = 1) AS last USING (run_id)
LEFT JOIN (
    SELECT target_run_id, reason FROM retraction WHERE target_run_id IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY target_run_id ORDER BY position) = 1
) AS void ON void.target_run_id = run.run_id;

-- name: traces
SELECT * FROM model_trace
QUALIFY row_number() OVER (
    PARTITION BY model_id, mode, phase, batch_size, sequence_length, image_size, workload ORDER BY position DESC
) = 1;

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
    min(first_position) AS first_position, max(position) AS last_position
FROM (
    SELECT 'described' AS kind, {'b': 1, 'p': position} AS rank, position AS first_position, position, hardware_id,
        hardware_id_posted, hardware_kind, hardware_count, name, vendor, platforms, spec,
        position AS environment_position, environment_fingerprint, 0 AS measurements, 0 AS measured, 0 AS tests
    FROM hardware_description
    UNION ALL
    SELECT 'fact', {'b': 0, 'p': last_position}, first_position, last_position, hardware_id, hardware_id_posted,
        hardware_kind, hardware_count, NULL, NULL, NULL, NULL, environment_position, environment_fingerprint, measurements,
        measured, tests
    FROM (
        SELECT min(subject) AS one, min(first_position) AS first_position, max(last_position) AS last_position,
            max(environment_position) AS environment_position,
            arg_max(environment_fingerprint, environment_position) AS environment_fingerprint,
            sum(measurements) AS measurements, sum(measured) AS measured, 0 AS tests
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
-- `reached`: at which stage it ended, counted from 1 (resolve) to 7 (verify); 8 where it passed. A case that was skipped says
-- nothing of what works.
SELECT
    model_id, hardware_id, platform, precision,
    arg_max(category, position) FILTER (WHERE category IS NOT NULL) AS category,
    arg_max(family, position) FILTER (WHERE family IS NOT NULL) AS family,
    bool_or(reached >= 5) AS built,
    bool_or(reached >= 7) AS ran,
    arg_max(reached = 8, position) FILTER (WHERE kind = 'test') AS verified,
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
    arg_max(outcome, position) AS outcome,
    arg_max(stage, position) AS stage,
    arg_max(error, position) FILTER (WHERE outcome <> 'passed') AS error,
    arg_max(message, position) FILTER (WHERE outcome <> 'passed') AS message,
    arg_max(remedy, position) FILTER (WHERE outcome <> 'passed') AS remedy,
    arg_max(event_id, position) AS evidence,
    max(position) AS position
FROM (
    SELECT 'measurement' AS kind, genuine_position AS position, genuine_event::VARCHAR AS event_id, model_id, hardware_id,
        platform, precision, category, family, 'passed' AS outcome, 'run' AS stage, NULL AS error, NULL AS message,
        NULL AS remedy, genuine AS measurements, 8 AS reached, best IS NOT NULL AS usable, NULL AS why
    FROM standing JOIN subject ON standing.subject = subject.id WHERE genuine > 0
    UNION ALL
    SELECT kind, position, event_id, model_id, hardware_id, platform, precision, category, family,
        outcome, stage, error, message, remedy, 0,
        CASE outcome WHEN 'passed' THEN 8 WHEN 'skipped' THEN NULL ELSE list_position(
            ['resolve', 'load', 'convert', 'compile', 'first_run', 'run', 'verify'], stage) END,
        CASE WHEN kind = 'failure' AND outcome <> 'skipped' THEN false END,
        CASE WHEN outcome NOT IN ('passed', 'skipped') THEN
            concat(outcome, ' at ', stage, ': ', split_part(coalesce(nullif(message, ''), error), chr(10), 1)) END
    FROM outcomes WHERE origin <> 'simulated'
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
    arg_max(outcome, position) AS outcome, arg_max(stage, position) AS stage,
    arg_max(error, position) FILTER (WHERE error IS NOT NULL) AS error,
    arg_max(message, position) FILTER (WHERE message IS NOT NULL) AS message,
    arg_max(remedy, position) FILTER (WHERE remedy IS NOT NULL) AS remedy,
    list_sort(list(hardware_id)) AS hardware,
    arg_max(evidence, position) AS evidence, max(position) AS position
FROM compatibility_by_hardware
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
    list_sort(coalesce(list(precision) FILTER (WHERE ran), [])) AS precisions,
    sum(measurements)::BIGINT AS measurements, sum(tests)::BIGINT AS tests, sum(failures)::BIGINT AS failures,
    list_sort(list_distinct(flatten(list(hardware)))) AS hardware,
    arg_max(evidence, position) AS evidence, max(position) AS position
FROM compatibility
GROUP BY model_id, platform;

-- name: prices
SELECT * FROM price
QUALIFY row_number() OVER (
    PARTITION BY hardware_id, hardware_count, provider, instance, region, spot ORDER BY date DESC, position DESC
) = 1;

-- name: operations
SELECT * FROM operation;

-- name: retractions
SELECT * FROM retraction;

-- name: aliases
-- Every declaration; chains are followed by whoever resolves a name.
SELECT *, position = max(position) OVER (PARTITION BY kind, alias) AS in_force FROM alias;

-- name: predictors
SELECT * FROM predictor;

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
    one.throughput_per_s, one.peak_memory_bytes, one.energy_j, one.usd_per_hour, one.verdict, one.evidence, one.why
FROM (
    SELECT
        position, event_id, source, time, recorded_at, recommendation, answered_at_position, answer->>'$.model' AS model_id,
        question->>'$.mode' AS mode, question->>'$.objective' AS objective, question->>'$.percentile' AS percentile,
        answer->>'$.predictor' AS predictor, try_cast(answer->>'$.interval' AS DOUBLE) AS interval_coverage,
        unnest(from_json(json_extract(answer, '$.ranked'), '[{
            "rank": "BIGINT", "configuration": "VARCHAR", "hardware": "VARCHAR", "hardware_count": "BIGINT", "platform": "VARCHAR",
            "precision": "VARCHAR", "batch_size": "BIGINT", "sequence_length": "BIGINT", "image_size": "BIGINT", "basis": "VARCHAR",
            "origin": "VARCHAR", "latency_ms": "DOUBLE", "latency_ms_low": "DOUBLE", "latency_ms_high": "DOUBLE",
            "latency_is_mean": "BOOLEAN", "interval_covered": "BOOLEAN", "throughput_per_s": "DOUBLE",
            "peak_memory_bytes": "BIGINT", "energy_j": "DOUBLE", "usd_per_hour": "DOUBLE", "verdict": "VARCHAR",
            "evidence": ["VARCHAR"], "why": "VARCHAR"}]')) AS one
    FROM recommendation
);

-- name: snapshots
SELECT name, named_position, note, position, event_id, source, time, recorded_at
FROM (FROM snapshot QUALIFY row_number() OVER (PARTITION BY name ORDER BY position DESC) = 1)
WHERE NOT withdrawn;

-- name: dead_letters
SELECT * FROM dead_letter;

-- name: state
SELECT position, 2 AS schema_version FROM projection;
