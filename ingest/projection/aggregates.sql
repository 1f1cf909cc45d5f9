-- What the measurements of each subject come to. The relations are named by who asks: `live` are the rows without the void.
-- A row without a time of its work or a rate (how long loading took, say) is a fact that it ran, and no measurement of speed: it
-- counts in `genuine` alone.

-- name: standing
SELECT
    subject, count(*) FILTER (WHERE timed) AS measurements, count(*) FILTER (WHERE timed AND origin = 'measured') AS measured,
    min(position) AS first_position, max(position) AS last_position, max(coalesce(time, recorded_at)) AS newest,
    max(position) FILTER (WHERE environment_fingerprint IS NOT NULL) AS environment_position,
    arg_max(environment_fingerprint, position) FILTER (WHERE environment_fingerprint IS NOT NULL) AS environment_fingerprint,
    count(*) FILTER (WHERE origin NOT IN ('page', 'simulated')) AS genuine,
    max(position) FILTER (WHERE origin NOT IN ('page', 'simulated')) AS genuine_position,
    arg_max(event_id, position) FILTER (WHERE origin NOT IN ('page', 'simulated')) AS genuine_event,
    max(
        ((origin = 'measured')::BIGINT * 2 + (coalesce(verdict, 'suspect') = 'valid')::BIGINT) * 1152921504606846976 + position
    ) FILTER (WHERE timed AND origin NOT IN ('page', 'simulated') AND coalesce(verdict, 'suspect') <> 'invalid') AS best,
    count(*) FILTER (WHERE timed AND origin NOT IN ('page', 'simulated')) AS timed
FROM live GROUP BY subject;

-- name: live
SELECT m.position, m.event_id, m.time, m.recorded_at, m.subject, c.origin, j.verdict, c.environment_fingerprint,
    coalesce(m.latency_p50_ms, m.latency_mean_ms, m.throughput_per_s, m.tokens_per_s, m.ttft_ms, m.tpot_ms, m.realtime_factor)
        IS NOT NULL AS timed
FROM measurement AS m ANTI JOIN void USING (position)
JOIN context AS c ON m.context = c.id JOIN judgement AS j ON m.judgement = j.id;

-- name: live_of_batch
SELECT m.position, m.event_id::UUID AS event_id, m.time, m.recorded_at, m.subject, c.origin, j.verdict, c.environment_fingerprint,
    coalesce(m.p50, m.mean, m.throughput_per_s, m.tokens_per_s, m.ttft_ms, m.tpot_ms, m.realtime_factor)
        IS NOT NULL AS timed
FROM measured AS m ANTI JOIN void USING (position)
JOIN context AS c ON m.context = c.id JOIN judgement AS j ON m.judgement = j.id

-- name: live_again
SELECT m.position, m.event_id, m.time, m.recorded_at, m.subject, c.origin, j.verdict, c.environment_fingerprint,
    coalesce(m.latency_p50_ms, m.latency_mean_ms, m.throughput_per_s, m.tokens_per_s, m.ttft_ms, m.tpot_ms, m.realtime_factor)
        IS NOT NULL AS timed
FROM measurement AS m ANTI JOIN void USING (position)
JOIN context AS c ON m.context = c.id JOIN judgement AS j ON m.judgement = j.id
WHERE m.subject IN (SELECT subject FROM changed WHERE measured);

-- name: merge
CREATE OR REPLACE TEMPORARY TABLE merged AS
SELECT
    subject, sum(measurements)::BIGINT, sum(measured)::BIGINT, min(first_position), max(last_position), max(newest),
    max(environment_position), arg_max(environment_fingerprint, environment_position), sum(genuine)::BIGINT,
    max(genuine_position), arg_max(genuine_event, genuine_position) AS genuine_event, max(best), sum(timed)::BIGINT
FROM (
    FROM came UNION ALL BY NAME FROM standing SEMI JOIN came USING (subject)
) GROUP BY subject;

-- name: forget
DELETE FROM standing WHERE subject IN (SELECT subject FROM came);

-- name: forget_changed
DELETE FROM standing WHERE subject IN (SELECT subject FROM changed WHERE measured);

-- name: keep
INSERT INTO standing
SELECT * EXCLUDE (genuine_event), id_high(genuine_event), id_low(genuine_event) FROM merged ORDER BY subject;

-- name: keep_again
INSERT INTO standing SELECT * EXCLUDE (genuine_event), id_high(genuine_event), id_low(genuine_event) FROM came;

-- name: before
SELECT subject, measurements, measured, first_position, last_position, epoch_us(newest), environment_position,
    environment_fingerprint, genuine, genuine_position, genuine_event::VARCHAR, best, timed
FROM standing;
