import pytest

from domain.errors import ImpossibleConstraint, UsageError
from predictor.answering.question import Device, PredictQuestion, Question, answer_id


@pytest.mark.parametrize(
    ("devices", "field"),
    [
        ([Device(hardware=" ")], "devices[0].hardware"),
        ([Device(hardware="a"), Device(hardware="a")], "devices[1].name"),
        ([Device(hardware="a", free_memory_mb=0.0)], "devices[0].free_memory_mb"),
        ([Device(hardware="a", name=str(index)) for index in range(65)], "devices"),
    ],
)
def test_a_wrong_device_at_hand_is_named(devices: list[Device], field: str) -> None:
    with pytest.raises(UsageError) as caught:
        Question(model="m", devices=devices).checked()
    assert caught.value.field == field


def test_devices_at_hand_take_the_place_of_hardware() -> None:
    devices = [Device(hardware="b", name="cuda:0"), Device(hardware="a", name="cpu")]
    asked = Question(model="m", devices=devices).checked()
    assert asked.hardware == ["a", "b"]
    assert asked.checked() == asked
    with pytest.raises(UsageError) as caught:
        Question(model="m", devices=devices, hardware="own").checked()
    assert caught.value.field == "hardware"


def test_weights_are_shares_and_one_alone_is_its_name() -> None:
    asked = Question(model="m", objective={"latency": 3.0, "cost": 1.0, "energy": 0.0}).checked()
    assert asked.objective == {"cost": 0.25, "latency": 0.75}
    assert Question(model="m", objective={"cost": 2.0}).checked().objective == "cost"
    with pytest.raises(UsageError) as caught:
        Question(model="m", objective={"latency": -1.0}).checked()
    assert caught.value.field == "objective.latency"


@pytest.mark.parametrize("field", ["max_latency_ms", "max_memory_mb", "max_usd_per_hour", "min_throughput_per_s"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_that_nothing_meets_is_named(field: str, value: float) -> None:
    with pytest.raises(ImpossibleConstraint) as caught:
        Question(model="m", **{field: value}).checked()
    assert caught.value.field == field
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "dreaming"), ("objective", "beauty"), ("percentile", "p42"), ("top", 0), ("as_of", -1), ("model", " "),
        ("batch_sizes", [0]), ("batch_sizes", [1 << 40]), ("sequence_length", 0), ("hardware", []),
        ("hardware", ["own", "nvidia-l4"]), ("count", 0), ("confidence", 1.0), ("confidence", 0.2),
        ("objective", {"latency": 0.0}), ("compiled", "maybe"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_by_its_field(field: str, value: object) -> None:
    with pytest.raises(UsageError) as caught:
        Question(**{"model": "m", field: value}).checked()
    assert caught.value.field == field
    assert caught.value.remedy


def test_equal_questions_have_one_form() -> None:
    one = Question(model=" m ", platform="cuda,cpu", batch_sizes=[8, 1, 8], record=True, as_of=7).checked()
    other = Question(model="m", platform=["cpu", "cuda"], batch_sizes=[1, 8]).checked()
    assert one.identity() == other.identity()
    assert answer_id(one.identity(), 7, "sha256:a", 1) == answer_id(other.identity(), 7, "sha256:a", 1)
    assert answer_id(one.identity(), 7, "sha256:a", 1) != answer_id(one.identity(), 8, "sha256:a", 1)


def test_a_prediction_is_a_question_about_one_configuration() -> None:
    asked = PredictQuestion(
        model="m", hardware="nvidia-l4", platform="cuda", precision="fp16", batch_size=4
    ).as_question()
    assert (asked.hardware, asked.platform, asked.precision, asked.batch_sizes) == (
        ["nvidia-l4"],
        ["cuda"],
        ["fp16"],
        [4],
    )


@pytest.mark.parametrize("field", ["hardware", "platform", "precision"])
def test_a_prediction_of_nothing_is_named_by_its_field(field: str) -> None:
    whole = {"model": "m", "hardware": "h", "platform": "cpu", "precision": "fp32", field: " "}
    with pytest.raises(UsageError) as caught:
        PredictQuestion(**whole).as_question()
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("word", "precision"),
    [("half", "fp16"), ("F16", "fp16"), ("awq", "int4"), ("GPTQ", "int4"), ("4bit", "int4"), ("w8a8", "int8"),
     ("nvfp4", "fp4"), ("mxfp4", "mxfp4"), ("Q4_K_M", "q4_k_m"), ("UD-Q4_K_XL", "q4_k_m"), ("6bit", "int6"),
     ("int8-dynamic", "int8-dynamic"), ("acme8", "acme8")],
)  # fmt: skip
def test_a_precision_may_be_named_as_files_name_it(word: str, precision: str) -> None:
    assert Question(model="m", precision=[word]).checked().precision == [precision]


def test_members_of_engines_are_in_a_question_only_where_it_says_them() -> None:
    plain, named = Question(model="m"), Question(model="m", runtime="Ollama", offload=True, host_memory_mb=1e5)
    assert not {"config", "runtime", "offload", "host_memory_mb"} & plain.checked().identity().keys()
    said = named.checked().identity()
    assert (said["runtime"], said["offload"], said["host_memory_mb"]) == ("llama.cpp", True, 1e5)
