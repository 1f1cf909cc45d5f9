-- The stable views: what people and programs query. docs/tables.md describes each. Retracted rows are not in them.

-- name: measurements
SELECT * FROM measurement
WHERE event_id NOT IN (SELECT target_event_id FROM retraction WHERE target_event_id IS NOT NULL)
  AND run_id NOT IN (SELECT target_run_id FROM retraction WHERE target_run_id IS NOT NULL);

-- name: outcomes
SELECT * FROM test
WHERE event_id NOT IN (SELECT target_event_id FROM retraction WHERE target_event_id IS NOT NULL)
  AND run_id NOT IN (SELECT target_run_id FROM retraction WHERE target_run_id IS NOT NULL);

-- name: tests
SELECT * EXCLUDE (kind) FROM outcomes WHERE kind = 'test';

-- name: failures
SELECT * EXCLUDE (kind, test, checks) FROM outcomes WHERE kind = 'failure';

-- name: best_measurements
SELECT * FROM measurements
WHERE origin <> 'simulated' AND coalesce(verdict, 'suspect') <> 'invalid'
-- The configuration says all of the others: they stand here so that a filter on them is applied before the window.
QUALIFY row_number() OVER (
    PARTITION BY configuration, model_id, hardware_id, platform, precision, mode
    ORDER BY origin = 'measured' DESC, coalesce(verdict, 'suspect') = 'valid' DESC, position DESC
) = 1;

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
SELECT
    model_id,
    arg_max(category, rank) FILTER (WHERE category IS NOT NULL) AS category,
    arg_max(family, rank) FILTER (WHERE family IS NOT NULL) AS family,
    arg_max(task, rank) FILTER (WHERE task IS NOT NULL) AS task,
    arg_max(parameters, rank) FILTER (WHERE parameters IS NOT NULL) AS parameters,
    arg_max(architecture, rank) FILTER (WHERE architecture IS NOT NULL) AS architecture,
    arg_max(config, rank) FILTER (WHERE config IS NOT NULL) AS config,
    list_sort(list(DISTINCT model_id_posted) FILTER (WHERE model_id_posted <> model_id)) AS other_names,
    count(*) FILTER (WHERE kind = 'measurement') AS measurements,
    count(*) FILTER (WHERE kind = 'trace') AS traces,
    count(*) FILTER (WHERE kind = 'test') AS tests,
    min(position) AS first_position, max(position) AS last_position
FROM (
    -- What a description says beats what came along with a trace, and that what came along with a measurement.
    SELECT 'described' AS kind, {'b': 3, 'p': position} AS rank, position, model_id, model_id_posted, category, family,
        task, parameters, architecture, config FROM model
    UNION ALL
    SELECT 'trace', {'b': 2, 'p': position}, position, model_id, model_id_posted, category, family, task, parameters,
        architecture, NULL FROM model_trace
    UNION ALL
    SELECT 'measurement', {'b': 1, 'p': position}, position, model_id, model_id_posted, category, family, task,
        parameters, architecture, NULL FROM measurements
    UNION ALL
    SELECT 'test', {'b': 0, 'p': position}, position, model_id, model_id_posted, category, family, task, parameters,
        architecture, NULL FROM outcomes
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
    arg_max(environment_fingerprint, rank) FILTER (WHERE environment_fingerprint IS NOT NULL) AS environment_fingerprint,
    list_sort(list(DISTINCT hardware_id_posted) FILTER (WHERE hardware_id_posted <> hardware_id)) AS other_names,
    bool_or(kind = 'described') AS described,
    count(*) FILTER (WHERE kind = 'measurement') AS measurements,
    count(*) FILTER (WHERE kind = 'measurement' AND origin = 'measured') AS measured,
    count(*) FILTER (WHERE kind = 'test') AS tests,
    min(position) AS first_position, max(position) AS last_position
FROM (
    SELECT 'described' AS kind, {'b': 1, 'p': position} AS rank, position, hardware_id, hardware_id_posted,
        hardware_kind, hardware_count, name, vendor, platforms, spec, environment_fingerprint, NULL AS origin FROM hardware_description
    UNION ALL
    SELECT 'measurement', {'b': 0, 'p': position}, position, hardware_id, hardware_id_posted, hardware_kind,
        hardware_count, NULL, NULL, NULL, NULL, environment_fingerprint, origin FROM measurements
    UNION ALL
    SELECT 'test', {'b': 0, 'p': position}, position, hardware_id, hardware_id_posted, hardware_kind,
        hardware_count, NULL, NULL, NULL, NULL, environment_fingerprint, origin FROM outcomes
)
GROUP BY hardware_id;

-- name: environments
SELECT * FROM environment;

-- name: compatibility_by_hardware
SELECT
    model_id, hardware_id, platform, precision,
    arg_max(category, position) FILTER (WHERE category IS NOT NULL) AS category,
    arg_max(family, position) FILTER (WHERE family IS NOT NULL) AS family,
    bool_or(outcome = 'passed') AS ran,
    bool_or(outcome = 'passed' AND kind = 'test') AS verified,
    count(*) FILTER (WHERE kind = 'measurement') AS measurements,
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
    SELECT 'measurement' AS kind, position, event_id, model_id, hardware_id, platform, precision, category, family,
        'passed' AS outcome, 'run' AS stage, NULL AS error, NULL AS message, NULL AS remedy
    FROM measurements WHERE origin <> 'simulated'
    UNION ALL
    SELECT kind, position, event_id, model_id, hardware_id, platform, precision, category, family,
        outcome, stage, error, message, remedy
    FROM outcomes WHERE origin <> 'simulated'
)
GROUP BY model_id, hardware_id, platform, precision;

-- name: compatibility
SELECT
    model_id, platform, precision,
    arg_max(category, position) FILTER (WHERE category IS NOT NULL) AS category,
    arg_max(family, position) FILTER (WHERE family IS NOT NULL) AS family,
    bool_or(ran) AS ran, bool_or(verified) AS verified,
    sum(measurements)::BIGINT AS measurements, sum(tests)::BIGINT AS tests, sum(failures)::BIGINT AS failures,
    arg_max(outcome, position) AS outcome, arg_max(stage, position) AS stage,
    arg_max(error, position) FILTER (WHERE error IS NOT NULL) AS error,
    arg_max(message, position) FILTER (WHERE message IS NOT NULL) AS message,
    arg_max(remedy, position) FILTER (WHERE remedy IS NOT NULL) AS remedy,
    list_sort(list(hardware_id)) AS hardware,
    arg_max(evidence, position) AS evidence, max(position) AS position
FROM compatibility_by_hardware
GROUP BY model_id, platform, precision;

-- name: prices
SELECT * FROM price
QUALIFY row_number() OVER (
    PARTITION BY hardware_id, hardware_count, provider, instance, region, spot ORDER BY date DESC, position DESC
) = 1;
