-- The tables of a projection. Each row keeps the position, id and times of its event. A column that is null was not said.
-- `<noun>_id` is the canonical id by the aliases declared so far, `<noun>_id_posted` the id as it came.
-- What repeats is kept once: an id is the position of the first event that said it, so that it is the same however the log
-- is cut into batches. The views put the columns together again.

CREATE TABLE projection (
    position BIGINT NOT NULL, event_id VARCHAR, definitions VARCHAR NOT NULL, chain VARCHAR, log VARCHAR, epoch BIGINT
);
COMMENT ON COLUMN projection.chain IS 'link of the event at the position in the hash chain of the log, as hex';

CREATE TABLE link (
    position BIGINT NOT NULL, chain VARCHAR NOT NULL
);
COMMENT ON TABLE link IS 'the first event of every 1,024 positions and its link: where a log that lost its tail was still the same';

CREATE TABLE event_type_count (
    type VARCHAR PRIMARY KEY, events BIGINT NOT NULL, first_position BIGINT NOT NULL, last_position BIGINT NOT NULL,
    known BOOLEAN NOT NULL
);
COMMENT ON COLUMN event_type_count.known IS 'this version projects the type, or knows that nothing is to be projected of it';

CREATE TABLE dead_letter (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, type VARCHAR NOT NULL, recorded_at TIMESTAMPTZ NOT NULL,
    reason VARCHAR NOT NULL
);

CREATE TABLE moment (
    position BIGINT NOT NULL, recorded_at TIMESTAMPTZ NOT NULL, type VARCHAR NOT NULL
);

CREATE TABLE run (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, attestation VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    run_id VARCHAR NOT NULL, kind VARCHAR, hardware JSON, environment_fingerprint VARCHAR, plan JSON, planned BIGINT,
    origin VARCHAR, provenance_source VARCHAR, reference VARCHAR, licence VARCHAR,
    repository VARCHAR, branch VARCHAR, commit VARCHAR, pull_request VARCHAR, job VARCHAR, attempt BIGINT
);

CREATE TABLE run_end (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    run_id VARCHAR NOT NULL, outcome VARCHAR, measured BIGINT, failed BIGINT, tests BIGINT, reason VARCHAR
);

-- Parts: what events say again and again, by the text in which they said it (minified; empty where they said nothing).

CREATE TABLE model_part (
    id BIGINT NOT NULL, model_sent VARCHAR NOT NULL,
    model_id VARCHAR NOT NULL, model_id_posted VARCHAR NOT NULL, category VARCHAR, family VARCHAR, architecture VARCHAR,
    task VARCHAR, revision VARCHAR, parameters BIGINT, weights VARCHAR
);

CREATE TABLE hardware_part (
    id BIGINT NOT NULL, hardware_sent VARCHAR NOT NULL,
    hardware_id VARCHAR NOT NULL, hardware_id_posted VARCHAR NOT NULL, hardware_kind VARCHAR, hardware_count BIGINT NOT NULL
);

CREATE TABLE workload_part (
    id BIGINT NOT NULL, workload_sent VARCHAR NOT NULL,
    mode VARCHAR NOT NULL, scenario VARCHAR, batch_size BIGINT, sequence_length BIGINT, image_size BIGINT, images BIGINT,
    audio_seconds DOUBLE, frames BIGINT, input_tokens BIGINT, output_tokens BIGINT, steps BIGINT, concurrency BIGINT,
    arrival_rate_per_s DOUBLE, optimizer VARCHAR, gradient_checkpointing BOOLEAN,
    workload JSON NOT NULL
);

CREATE TABLE execution_part (
    id BIGINT NOT NULL, execution_sent VARCHAR NOT NULL, observed_sent VARCHAR NOT NULL,
    platform VARCHAR NOT NULL, precision VARCHAR, platform_asked VARCHAR NOT NULL, precision_asked VARCHAR,
    device VARCHAR, device_asked VARCHAR, fallback_share DOUBLE,
    runtime_name VARCHAR, runtime_version VARCHAR, compiled BOOLEAN, layout VARCHAR, threads BIGINT, streams BIGINT,
    parallelism JSON, power_limit_w DOUBLE, options JSON, scenario_result JSON, training_ranks JSON,
    execution JSON NOT NULL
);

CREATE TABLE subject (
    id BIGINT NOT NULL, model BIGINT NOT NULL, hardware BIGINT NOT NULL, workload_id BIGINT NOT NULL, execution_id BIGINT NOT NULL,
    configuration VARCHAR NOT NULL,
    model_id VARCHAR NOT NULL, model_id_posted VARCHAR NOT NULL, category VARCHAR, family VARCHAR, architecture VARCHAR,
    task VARCHAR, revision VARCHAR, parameters BIGINT, weights VARCHAR,
    hardware_id VARCHAR NOT NULL, hardware_id_posted VARCHAR NOT NULL, hardware_kind VARCHAR, hardware_count BIGINT NOT NULL,
    mode VARCHAR NOT NULL, scenario VARCHAR, batch_size BIGINT, sequence_length BIGINT, image_size BIGINT, images BIGINT,
    audio_seconds DOUBLE, frames BIGINT, input_tokens BIGINT, output_tokens BIGINT, steps BIGINT, concurrency BIGINT,
    arrival_rate_per_s DOUBLE, optimizer VARCHAR, gradient_checkpointing BOOLEAN,
    platform VARCHAR NOT NULL, precision VARCHAR, platform_asked VARCHAR NOT NULL, precision_asked VARCHAR,
    device VARCHAR, device_asked VARCHAR, fallback_share DOUBLE,
    runtime_name VARCHAR, runtime_version VARCHAR, compiled BOOLEAN, layout VARCHAR, threads BIGINT, streams BIGINT,
    parallelism JSON, power_limit_w DOUBLE, options JSON, scenario_result JSON, training_ranks JSON,
    workload JSON NOT NULL, execution JSON NOT NULL
);

CREATE TABLE context (
    id BIGINT NOT NULL, source VARCHAR NOT NULL, attestation VARCHAR NOT NULL, run_sent VARCHAR NOT NULL,
    environment_sent VARCHAR NOT NULL, provenance_sent VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL, environment_fingerprint VARCHAR,
    origin VARCHAR NOT NULL, provenance_source VARCHAR, reference VARCHAR, licence VARCHAR
);

CREATE TABLE judgement (
    id BIGINT NOT NULL, validity_sent VARCHAR NOT NULL,
    verdict VARCHAR, verdict_reasons JSON, metric_verdicts JSON, energy_verdict VARCHAR
);

-- An id as its halves: that of time packs to some bits, while DuckDB packs no column of UUIDs in blocks of 64 KiB. The columns that
-- put them together take no bit operators, which DuckDB does not have yet when it replays a write-ahead log.
CREATE MACRO id_high(id) AS (id::UHUGEINT >> 64)::UBIGINT;
CREATE MACRO id_low(id) AS (id::UHUGEINT & 18446744073709551615)::UBIGINT;

CREATE TABLE measurement (
    position BIGINT NOT NULL,
    event_id UUID GENERATED ALWAYS AS ((id_high::UHUGEINT * 18446744073709551616::UHUGEINT + id_low)::UUID) VIRTUAL,
    id_high UBIGINT NOT NULL, id_low UBIGINT NOT NULL, time TIMESTAMPTZ, recorded_at TIMESTAMPTZ NOT NULL,
    subject BIGINT NOT NULL, context BIGINT NOT NULL, judgement BIGINT NOT NULL,
    latency_mean_ms DOUBLE, latency_min_ms DOUBLE, latency_max_ms DOUBLE, latency_stddev_ms DOUBLE,
    latency_p50_ms DOUBLE, latency_p90_ms DOUBLE, latency_p95_ms DOUBLE, latency_p99_ms DOUBLE, latency_n BIGINT,
    latency_p50_ci95_low_ms DOUBLE, latency_p50_ci95_high_ms DOUBLE,
    latency_mean_ci95_low_ms DOUBLE, latency_mean_ci95_high_ms DOUBLE, other_ci95 VARCHAR,
    throughput_per_s DOUBLE, tokens_per_s DOUBLE, ttft_ms DOUBLE, tpot_ms DOUBLE, realtime_factor DOUBLE,
    load_ms DOUBLE, convert_ms DOUBLE, compile_ms DOUBLE, first_run_ms DOUBLE, preprocess_ms DOUBLE,
    postprocess_ms DOUBLE, forward_ms DOUBLE, loss_ms DOUBLE, backward_ms DOUBLE, optimizer_ms DOUBLE,
    peak_memory_bytes BIGINT, mean_memory_bytes BIGINT, device_memory_bytes BIGINT,
    kv_cache_bytes BIGINT, energy_j DOUBLE, power_w DOUBLE, energy_per_item_j DOUBLE, energy_per_token_j DOUBLE,
    energy_above_idle_j DOUBLE, idle_power_w DOUBLE, device_time_ms DOUBLE,
    utilisation DOUBLE, goodput_per_s DOUBLE, roofline_share DOUBLE,
    samples_n BIGINT,
    stopped_by VARCHAR, other_load DOUBLE, clock_before_hz DOUBLE, clock_after_hz DOUBLE, energy_reading JSON
);
COMMENT ON COLUMN measurement.other_ci95 IS 'all intervals as JSON, where there are others than those of p50 and mean';

CREATE TABLE standing (
    subject BIGINT NOT NULL, measurements BIGINT NOT NULL, measured BIGINT NOT NULL,
    first_position BIGINT NOT NULL, last_position BIGINT NOT NULL, newest TIMESTAMPTZ NOT NULL,
    environment_position BIGINT, environment_fingerprint VARCHAR,
    genuine BIGINT NOT NULL, genuine_position BIGINT,
    genuine_event UUID GENERATED ALWAYS AS (
        (genuine_high::UHUGEINT * 18446744073709551616::UHUGEINT + genuine_low)::UUID
    ) VIRTUAL,
    best BIGINT, timed BIGINT NOT NULL, genuine_high UBIGINT, genuine_low UBIGINT
);
COMMENT ON COLUMN standing.genuine IS 'those that are not simulated, also without a time or a rate';
COMMENT ON COLUMN standing.timed IS 'those that are not simulated and have a time of the work, or a rate';
COMMENT ON COLUMN standing.best IS 'rank * 2^60 + position of the best row: measured is worth 2, valid 1; simulated and invalid rows have no rank';

CREATE TABLE test (
    position BIGINT NOT NULL, event_id UUID NOT NULL, time TIMESTAMPTZ, recorded_at TIMESTAMPTZ NOT NULL,
    subject BIGINT NOT NULL, context BIGINT NOT NULL,
    kind VARCHAR NOT NULL, test VARCHAR, outcome VARCHAR NOT NULL, stage VARCHAR NOT NULL,
    error VARCHAR, message VARCHAR, remedy VARCHAR, checks JSON
);
COMMENT ON COLUMN test.kind IS 'test: a test was reported; failure: a measurement failed';

CREATE TABLE voided (
    position BIGINT NOT NULL, since BIGINT NOT NULL, until BIGINT
);
COMMENT ON COLUMN voided.since IS 'position of the retraction; one row for each that names the fact';
COMMENT ON COLUMN voided.until IS 'position of the event that undid it, or null';
CREATE VIEW void AS SELECT position, since FROM voided WHERE until IS NULL;
COMMENT ON COLUMN void.position IS 'position of the event that is void';
COMMENT ON COLUMN void.since IS 'position of the retraction';

CREATE TABLE model (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    model_id VARCHAR NOT NULL, model_id_posted VARCHAR NOT NULL, category VARCHAR, family VARCHAR, architecture VARCHAR,
    task VARCHAR, revision VARCHAR, parameters BIGINT, aliases JSON, config JSON
);

CREATE TABLE model_trace (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    model_id VARCHAR NOT NULL, model_id_posted VARCHAR NOT NULL, category VARCHAR, family VARCHAR, architecture VARCHAR,
    task VARCHAR, parameters BIGINT,
    mode VARCHAR, phase VARCHAR, batch_size BIGINT, sequence_length BIGINT, image_size BIGINT, workload JSON, tracer JSON,
    operators JSON NOT NULL, totals JSON NOT NULL
);

-- A table of kernel timings is an event; its rows are in `kernel`.
CREATE TABLE kernel_table (
    position BIGINT NOT NULL, event_id UUID NOT NULL, source VARCHAR NOT NULL, attestation VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL, run_id VARCHAR NOT NULL,
    hardware_id VARCHAR NOT NULL, hardware_id_posted VARCHAR NOT NULL, hardware_kind VARCHAR, hardware_count BIGINT NOT NULL,
    device_name VARCHAR, platform VARCHAR NOT NULL, precision VARCHAR, runtime_name VARCHAR, runtime_version VARCHAR,
    compiled BOOLEAN, threads BIGINT, options JSON,
    operator VARCHAR NOT NULL, name VARCHAR, phase VARCHAR, kernel VARCHAR,
    type_published VARCHAR, type_weights VARCHAR, type_activations VARCHAR, type_arithmetic VARCHAR, type_kv_cache VARCHAR,
    statistic VARCHAR, launch VARCHAR, buffers VARCHAR, method JSON,
    timings BIGINT NOT NULL, timings_suspect BIGINT NOT NULL, timings_invalid BIGINT NOT NULL, marks JSON,
    verdict VARCHAR, environment_fingerprint VARCHAR,
    origin VARCHAR NOT NULL, provenance_source VARCHAR, reference VARCHAR, licence VARCHAR
);

CREATE TABLE kernel (
    position BIGINT NOT NULL, timing_id BIGINT NOT NULL, row BIGINT NOT NULL,
    m BIGINT, n BIGINT, k BIGINT, batch BIGINT, query_tokens BIGINT, cached_tokens BIGINT, heads BIGINT, kv_heads BIGINT,
    head_dim BIGINT, window_size BIGINT, in_channels BIGINT, out_channels BIGINT, height BIGINT, width BIGINT,
    kernel_height BIGINT, kernel_width BIGINT, stride BIGINT, padding BIGINT, groups BIGINT, tokens BIGINT,
    hidden_size BIGINT, inner_size BIGINT, experts BIGINT, top_k BIGINT, tensor_parallel BIGINT, expert_parallel BIGINT,
    ranks BIGINT, elements BIGINT, rows BIGINT, row_size BIGINT, inputs BIGINT,
    samples_n BIGINT, calls BIGINT, model_batch BIGINT, model_sequence BIGINT,
    kernel VARCHAR, shape VARCHAR, distribution VARCHAR, split VARCHAR, part_of VARCHAR, mode VARCHAR,
    latency_ms DOUBLE NOT NULL, latency_stddev_ms DOUBLE, latency_min_ms DOUBLE, verdict VARCHAR, reason VARCHAR
);

CREATE TABLE hardware_description (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    hardware_id VARCHAR NOT NULL, hardware_id_posted VARCHAR NOT NULL, hardware_kind VARCHAR, hardware_count BIGINT NOT NULL,
    name VARCHAR, vendor VARCHAR, aliases JSON, platforms JSON, spec JSON, environment_fingerprint VARCHAR
);

CREATE TABLE environment (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    fingerprint VARCHAR NOT NULL, driver VARCHAR, os VARCHAR, kernel VARCHAR, python VARCHAR, cpu VARCHAR, machine VARCHAR,
    hypervisor VARCHAR, memory_bytes BIGINT, libraries JSON
);

CREATE TABLE alias (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    kind VARCHAR NOT NULL, alias VARCHAR NOT NULL, canonical VARCHAR NOT NULL, reason VARCHAR
);

CREATE TABLE price (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    hardware_id VARCHAR NOT NULL, hardware_id_posted VARCHAR NOT NULL, hardware_count BIGINT NOT NULL,
    provider VARCHAR NOT NULL, usd_per_hour DOUBLE NOT NULL, date VARCHAR NOT NULL, instance VARCHAR, region VARCHAR,
    spot BOOLEAN NOT NULL, price_source VARCHAR
);

CREATE TABLE retraction (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    target_event_id VARCHAR, target_run_id VARCHAR, reason VARCHAR NOT NULL
);

CREATE TABLE predictor (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    digest VARCHAR NOT NULL, trained_at_position BIGINT NOT NULL, card JSON,
    accepted BOOLEAN NOT NULL, reason VARCHAR, comparison JSON
);

CREATE TABLE predictor_choice (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    digest VARCHAR NOT NULL, chosen_by VARCHAR NOT NULL, reason VARCHAR
);

CREATE TABLE prediction (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    prediction VARCHAR NOT NULL, answered_at_position BIGINT NOT NULL, question JSON, answer JSON
);

CREATE TABLE recommendation (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    recommendation VARCHAR NOT NULL, answered_at_position BIGINT NOT NULL, question JSON, answer JSON
);

CREATE TABLE operation (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    action VARCHAR NOT NULL, actor VARCHAR NOT NULL, object VARCHAR, details JSON
);

CREATE TABLE baseline (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    name VARCHAR NOT NULL, branch VARCHAR NOT NULL, named_position BIGINT NOT NULL, start_branch VARCHAR, start_position BIGINT,
    hardware_id VARCHAR, note VARCHAR, withdrawn BOOLEAN NOT NULL
);

CREATE TABLE snapshot (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    name VARCHAR NOT NULL, named_position BIGINT NOT NULL, note VARCHAR, withdrawn BOOLEAN NOT NULL
);

CREATE TABLE alert_raised (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    alert VARCHAR NOT NULL, title VARCHAR NOT NULL, direction VARCHAR NOT NULL, kind VARCHAR NOT NULL, cause JSON,
    changes JSON NOT NULL, examined_position BIGINT NOT NULL
);

CREATE TABLE alert_changed (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    alert VARCHAR NOT NULL, state VARCHAR NOT NULL, author VARCHAR NOT NULL, reason VARCHAR, gone JSON
);

CREATE TABLE job_requested (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    job VARCHAR NOT NULL, submission VARCHAR NOT NULL, name VARCHAR, title VARCHAR NOT NULL, needs JSON NOT NULL,
    priority BIGINT NOT NULL, attempts BIGINT NOT NULL, author VARCHAR NOT NULL, schedule VARCHAR, not_before TIMESTAMPTZ,
    plan JSON NOT NULL
);

CREATE TABLE job_changed (
    position BIGINT NOT NULL, event_id VARCHAR NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL,
    job VARCHAR NOT NULL, state VARCHAR NOT NULL, attempt BIGINT NOT NULL, worker VARCHAR, device VARCHAR, hardware VARCHAR,
    reason VARCHAR, run_ids VARCHAR[], exit_code BIGINT
);

-- A variant is an event; each of its forms is a row.
CREATE TABLE variant (
    position BIGINT NOT NULL, event_id UUID NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL, run_id VARCHAR NOT NULL,
    model_id VARCHAR NOT NULL, model_id_posted VARCHAR NOT NULL, base_id VARCHAR NOT NULL, base_id_posted VARCHAR NOT NULL,
    category VARCHAR, family VARCHAR, task VARCHAR, model_parameters BIGINT, weights VARCHAR, recipe VARCHAR NOT NULL,
    form VARCHAR NOT NULL, precision VARCHAR NOT NULL, quantization VARCHAR,
    bytes BIGINT NOT NULL, total_bytes BIGINT NOT NULL, base_bytes BIGINT, digest VARCHAR NOT NULL, base_digest VARCHAR,
    parameters JSON, tools JSON, calibration_name VARCHAR, calibration_digest VARCHAR, calibration_examples BIGINT,
    environment_fingerprint VARCHAR, origin VARCHAR NOT NULL, provenance_source VARCHAR, reference VARCHAR, licence VARCHAR
);

CREATE TABLE quality_comparison (
    position BIGINT NOT NULL, event_id UUID NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL, run_id VARCHAR NOT NULL,
    model_id VARCHAR NOT NULL, model_id_posted VARCHAR NOT NULL, base_id VARCHAR NOT NULL, base_id_posted VARCHAR NOT NULL,
    hardware_id VARCHAR NOT NULL, hardware_id_posted VARCHAR NOT NULL, hardware_kind VARCHAR, hardware_count BIGINT NOT NULL,
    platform VARCHAR NOT NULL, precision VARCHAR, runtime_name VARCHAR, runtime_version VARCHAR, compiled BOOLEAN,
    options JSON, metric VARCHAR NOT NULL, unit VARCHAR NOT NULL, direction VARCHAR NOT NULL, examples BIGINT NOT NULL,
    value DOUBLE NOT NULL, base_value DOUBLE NOT NULL, loss DOUBLE NOT NULL, loss_low DOUBLE NOT NULL,
    loss_high DOUBLE NOT NULL, method VARCHAR NOT NULL, worse BIGINT, better BIGINT, p_value DOUBLE, evaluator VARCHAR,
    data_name VARCHAR NOT NULL, data_digest VARCHAR NOT NULL, data_examples BIGINT NOT NULL,
    distance_cosine DOUBLE, distance_max_absolute DOUBLE,
    environment_fingerprint VARCHAR, origin VARCHAR NOT NULL, provenance_source VARCHAR, reference VARCHAR, licence VARCHAR
);

CREATE TABLE endpoint_change (
    position BIGINT NOT NULL, event_id UUID NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL, endpoint VARCHAR NOT NULL, server VARCHAR NOT NULL, change VARCHAR NOT NULL,
    model_id VARCHAR NOT NULL, model_id_posted VARCHAR NOT NULL,
    hardware_id VARCHAR, hardware_id_posted VARCHAR, hardware_count BIGINT,
    platform VARCHAR, precision VARCHAR, runtime_name VARCHAR, runtime_version VARCHAR,
    workers BIGINT, memory_bytes BIGINT, reason VARCHAR,
    promise_latency_ms DOUBLE, promise_low_ms DOUBLE, promise_high_ms DOUBLE, promise_coverage DOUBLE,
    promise_origin VARCHAR, promise_percentile VARCHAR, recommendation VARCHAR
);

CREATE TABLE delivery (
    position BIGINT NOT NULL, event_id UUID NOT NULL, source VARCHAR NOT NULL, time TIMESTAMPTZ,
    recorded_at TIMESTAMPTZ NOT NULL, endpoint VARCHAR NOT NULL, server VARCHAR NOT NULL,
    model_id VARCHAR NOT NULL, model_id_posted VARCHAR NOT NULL,
    hardware_id VARCHAR NOT NULL, hardware_id_posted VARCHAR NOT NULL, hardware_count BIGINT NOT NULL,
    platform VARCHAR NOT NULL, precision VARCHAR, runtime_name VARCHAR, runtime_version VARCHAR, workload JSON NOT NULL,
    since TIMESTAMPTZ NOT NULL, until TIMESTAMPTZ NOT NULL, requests BIGINT NOT NULL, failures BIGINT NOT NULL,
    verdict VARCHAR NOT NULL, reason VARCHAR, throughput_per_s DOUBLE,
    latency_mean_ms DOUBLE, latency_p50_ms DOUBLE, latency_p90_ms DOUBLE, latency_p95_ms DOUBLE, latency_p99_ms DOUBLE,
    latency_n BIGINT, request_mean_ms DOUBLE, request_p50_ms DOUBLE, request_p95_ms DOUBLE, request_p99_ms DOUBLE,
    promise_latency_ms DOUBLE, promise_low_ms DOUBLE, promise_high_ms DOUBLE, promise_coverage DOUBLE,
    promise_origin VARCHAR, promise_percentile VARCHAR, recommendation VARCHAR
);

-- A column of kernel timings as a list: one value a row, or `values` and how often each stands (`runs`), or one value for
-- all `timings`.
CREATE MACRO kernel_column(col, kind, timings) AS CASE json_type(col)
    WHEN 'ARRAY' THEN from_json(col, '["' || kind || '"]')
    WHEN 'OBJECT' THEN flatten(list_transform(list_zip(
        from_json(json_extract(col, '$.values'), '["' || kind || '"]'), from_json(json_extract(col, '$.runs'), '["BIGINT"]')),
        lambda pair: repeat([pair[1]], pair[2])))
    ELSE CASE WHEN col IS NOT NULL THEN flatten(repeat([from_json('[' || col || ']', '["' || kind || '"]')], timings)) END END;

-- The name of a configuration from its parts; domain.configuration.configuration_key says the same in Python.
CREATE MACRO configuration_key(execution, hardware_id, hardware_count, model_id, workload) AS
    left(sha256(
        '{"execution":' || execution || ',"hardware":{"count":' || hardware_count || ',"id":"' || hardware_id
        || '"},"model":{"id":"' || model_id || '"},"workload":' || workload || '}'
    ), 32);
