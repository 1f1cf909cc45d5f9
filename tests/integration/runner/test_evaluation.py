"""What a user's examples or command say of a model, and every way in which they can be wrong."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from domain.configuration import Workload
from domain.errors import AssayError, UnsupportedWorkload, UsageError
from runner.compression.contract import Scores
from runner.models.sources import ModelSource, resolve
from runner.protocol.tasks import Case, Evaluate, Message
from runner.quality.commands import agreeing
from runner.quality.evaluation import evaluate, output_distance, paired_loss, quality_measured, read_evaluator
from runner.quality.examples import read_examples
from runner.quality.scoring import evaluate_case
from tests.integration.runner.test_preprocessing import save_tokenizer
from tests.integration.runner.workbench import Stages

COUNT = 60
SIDE = {"image_size": 8, "patch_size": 4, "num_channels": 1, "num_labels": 3}
SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


class Listening(Stages):
    """Stages that keep messages too."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[Message] = []

    def say(self, message: Message) -> None:
        self.said.append(message)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of pictures, its classes named, and in `right.npz` examples on which it is always right."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    folder = tmp_path_factory.mktemp("models") / "vit"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        config = ViTConfig(**SMALL, **SIDE, id2label={0: "cat", 1: "dog", 2: "owl"}, initializer_range=0.5)
        module = ViTForImageClassification(config).eval()
    module.save_pretrained(folder)
    pixels = np.random.default_rng(0).normal(size=(COUNT, 1, 8, 8)).astype(np.float32)
    with torch.no_grad():
        labels = module(torch.from_numpy(pixels)).logits.argmax(1).numpy()
    np.savez(folder / "right.npz", pixel_values=pixels, labels=labels)
    return folder


@pytest.fixture(scope="module")
def source(classifier: Path) -> ModelSource:
    return resolve(str(classifier))


def stored(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def right(classifier: Path) -> dict[str, Any]:
    with np.load(classifier / "right.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def test_a_pruned_model_is_judged_on_its_platform_beside_its_base(classifier: Path, tmp_path: Path) -> None:
    from transformers import ViTForImageClassification

    pruned = ViTForImageClassification.from_pretrained(classifier)
    pruned.classifier.weight.data[0] = 0
    pruned.classifier.bias.data[0] = -100
    pruned.save_pretrained(tmp_path / "pruned")
    evaluator, shares = read_evaluator(str(classifier / "right.npz")), list[float | None]()
    examples = read_examples(classifier / "right.npz", resolve(str(classifier)))
    cache = tmp_path / "cache"
    workload = Workload(mode="inference", batch_size=7, image_size=8)
    case = Case(model=str(classifier), platform="cpu", precision="fp32", workload=workload, threads=1)
    arrays = {**examples.inputs, "labels/": examples.targets}
    values, _ = scored(case, arrays, "accuracy", tmp_path)
    with np.load(tmp_path / "scores.npz") as result:
        base = Scores(metric="accuracy", values=values, ids=examples.ids, outputs=result["outputs"])
    variant = evaluate(
        evaluator,
        str(tmp_path / "pruned"),
        "openvino",
        examples=examples,
        threads=1,
        cache=cache,
        on_progress=lambda _, share: shares.append(share),
    )
    lost = int((examples.targets == 0).sum())
    cost = paired_loss(base, variant)
    assert 0 < lost < COUNT and (cost.worse, cost.better) == (lost, 0)
    assert (cost.base_value, cost.value) == (1.0, pytest.approx(1 - lost / COUNT))
    assert cost.loss == pytest.approx(100 * lost / COUNT)
    distance = output_distance(base, variant)
    assert distance is not None and distance.cosine is not None and distance.cosine < 0.9
    assert shares == sorted(shares, key=float) and shares[-1] == 1.0  # type: ignore[arg-type]
    model = variant.evaluated.report["model"]
    event = quality_measured(
        evaluator, base, variant, run_id="r", base_model=model, model=model, data=examples.reference
    )
    assert (event.execution.platform, event.execution.precision, event.data.examples) == ("openvino", "fp32", COUNT)
    assert event.evaluator == "right.npz" and event.metric == "accuracy" and event.unit == "pt"


def scored(case: Case, arrays: dict[str, Any], metric: str, folder: Path) -> tuple[Any, Listening]:
    """Evaluate in this process; the values, and what was said."""
    given, scores, speaker = folder / "given.npz", folder / "scores.npz", Listening()
    np.savez(given, **arrays)
    evaluate_case(Evaluate(case=case, examples=str(given), scores=str(scores), metric=metric), speaker)
    with np.load(scores) as result:
        return result["values"], speaker


def test_texts_are_scored_by_the_likelihood_of_their_tokens_without_padding(tmp_path: Path) -> None:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=64, n_embd=16, n_layer=1, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0)
    module = GPT2LMHeadModel(config).eval()
    module.save_pretrained(tmp_path / "gpt")
    save_tokenizer(tmp_path / "gpt")
    texts = ["measure measure unknown measure", "measure unknown"]
    (tmp_path / "texts.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    examples = read_examples(tmp_path / "texts.jsonl", resolve(str(tmp_path / "gpt")))
    assert examples.targets is None and examples.inputs["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    workload = Workload(mode="inference", batch_size=2, sequence_length=4)
    case = Case(model=str(tmp_path / "gpt"), platform="cpu", precision="fp32", workload=workload, threads=1)
    values, _ = scored(case, examples.inputs, "nll", tmp_path)
    for row, length in enumerate((4, 2)):
        ids = torch.from_numpy(examples.inputs["input_ids"][row : row + 1, :length])
        with torch.no_grad():
            assert values[row] == pytest.approx(float(module(ids, labels=ids).loss), rel=1e-4)
    with pytest.raises(UsageError) as refused:
        scored(
            case,
            {name: array[:, :1].repeat(4, 1) * [1, 0, 0, 0] for name, array in examples.inputs.items()},
            "nll",
            tmp_path,
        )
    assert "two tokens" in refused.value.detail


def test_the_last_batch_is_filled_and_its_filling_not_scored(classifier: Path, tmp_path: Path) -> None:
    arrays = right(classifier)
    arrays["labels/"] = arrays.pop("labels")
    workload = Workload(mode="inference", batch_size=32, image_size=8)
    case = Case(model=str(classifier), platform="cpu", precision="fp32", workload=workload, threads=1)
    values, speaker = scored(case, arrays, "accuracy", tmp_path)
    assert values.shape == (COUNT,) and values.all() and len(speaker.said) == 2
    with pytest.raises(UsageError):
        scored(case, {**arrays, "labels/": arrays["labels/"] + 3}, "accuracy", tmp_path)
    with pytest.raises(UsageError) as refused:
        scored(case, {**arrays, "pixel_values": np.full_like(arrays["pixel_values"], np.nan)}, "accuracy", tmp_path)
    assert "example 0" in refused.value.detail


def test_labels_may_be_names_and_the_digest_is_that_of_the_contents(
    classifier: Path, source: ModelSource, tmp_path: Path
) -> None:
    arrays = right(classifier)
    words = np.array(["cat", "dog", "owl"])[arrays["labels"]]
    by_number = read_examples(stored(tmp_path / "a.npz", **arrays), source)
    by_name = read_examples(stored(tmp_path / "b.npz", pixel_values=arrays["pixel_values"], labels=words), source)
    assert by_number.targets.tolist() == by_name.targets.tolist() == arrays["labels"].tolist()
    assert by_number.reference.digest == by_name.reference.digest
    other = read_examples(stored(tmp_path / "c.npz", **{**arrays, "labels": (arrays["labels"] + 1) % 3}), source)
    assert other.reference.digest != by_number.reference.digest
    first = read_examples(tmp_path / "a.npz", source, limit=5)
    assert (first.reference.examples, len(first.ids)) == (5, 5)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"labels": None}, "labels"),
        ({"labels": np.full(COUNT, 3)}, "outside of the 3 classes"),
        ({"labels": np.full(COUNT, "cow")}, "'cow' of example 0"),
        ({"labels": np.zeros(3, int)}, "3 labels for 60"),
        ({"labels": np.full(COUNT, 0.5)}, "example 0"),
        ({"pixel_values": np.zeros((COUNT, 1, 16, 16), np.float32)}, "[60, 1, 8, 8]"),
        ({"pixel_values": np.zeros((COUNT, 64), np.float32)}, "[examples, 1, 8, 8]"),
        ({"pixel_values": np.zeros((COUNT, 1, 8, 8), np.uint8)}, "uint8"),
        ({"pixel_values": np.full((COUNT, 1, 8, 8), np.nan, np.float32)}, "row 0"),
        ({"pixel_values": np.zeros((0, 1, 8, 8), np.float32), "labels": np.zeros(0, int)}, "not one example"),
        ({"pixel_values": None}, "pixel_values"),
        ({"pixels": np.zeros(COUNT)}, "no input 'pixels'"),
        ({"ids": np.zeros(COUNT, int)}, "'0' of example 1"),
        ({"labels": np.array([{"label": 1}] * COUNT, dtype=object)}, "pickle"),
    ],
)
def test_arrays_that_do_not_fit_the_model_are_refused(
    change: dict[str, Any], says: str, classifier: Path, source: ModelSource, tmp_path: Path
) -> None:
    arrays = {name: array for name, array in {**right(classifier), **change}.items() if array is not None}
    with pytest.raises(UsageError) as refused:
        read_examples(stored(tmp_path / "bad.npz", **arrays), source, flag="calibrate")
    assert says in refused.value.detail
    assert "bad.npz" in refused.value.detail and refused.value.field == "calibrate" and refused.value.remedy


def test_files_that_cannot_be_read_are_refused(source: ModelSource, tmp_path: Path) -> None:
    for name in ("cut.npz", "cut.parquet", "cut.txt", "cut.jsonl"):
        (tmp_path / name).write_bytes(b"PK not one")
        with pytest.raises(UsageError) as refused:
            read_examples(tmp_path / name, source)
        assert name in refused.value.detail
    with pytest.raises(UsageError):
        read_examples(tmp_path / "absent.npz", source)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> ModelSource:
    """A classifier of texts with a tokenizer."""
    from transformers import BertConfig, BertForSequenceClassification

    folder = tmp_path_factory.mktemp("readers") / "bert"
    config = BertConfig(vocab_size=64, **SMALL, max_position_embeddings=4, num_labels=2, id2label={0: "bad", 1: "good"})
    BertForSequenceClassification(config).save_pretrained(folder)
    save_tokenizer(folder)
    return resolve(str(folder))


def test_texts_come_from_every_kind_of_table_and_are_cut_at_the_positions(reader: ModelSource, tmp_path: Path) -> None:
    import duckdb

    rows = [{"text": "measure", "label": "good"}, {"text": "measure measure x measure x x", "label": "bad"}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "t.csv").write_text("text,label\n" + "\n".join(f"{row['text']},{row['label']}" for row in rows))
    duckdb.read_json(str(tmp_path / "t.jsonl"), format="newline_delimited").write_parquet(str(tmp_path / "t.parquet"))
    read = [read_examples(tmp_path / f"t.{kind}", reader) for kind in ("jsonl", "csv", "parquet")]
    assert [each.targets.tolist() for each in read] == [[1, 0]] * 3
    assert {name: array.shape for name, array in read[0].inputs.items()} == dict.fromkeys(
        ("input_ids", "attention_mask"), (2, 4)
    )
    assert len({each.reference.digest for each in read}) == 1
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("text,label\nmeasure,1\n")
    assert read_examples(numbers, reader).targets.tolist() == [1]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"label": 0}], "row 1 has no `text`"),
        ([{"text": "a", "label": 0}, {"text": "b"}], "row 2 has no `label`"),
        ([{"text": "a"}], "no labels"),
        ([{"text": "a", "label": 2}], "outside of the 2 classes"),
        ([{"text": "a", "label": "fine"}], "'fine'"),
        ([], "not one example"),
        (["a"], "no JSON object"),
    ],
)
def test_texts_that_do_not_fit_are_refused(rows: list[Any], says: str, reader: ModelSource, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UsageError) as refused:
        read_examples(tmp_path / "bad.jsonl", reader)
    assert says in refused.value.detail and refused.value.remedy


def test_a_model_without_tokenizer_or_processor_wants_arrays(source: ModelSource, tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "t.jsonl").write_text('{"text": "a", "label": 0}')
    (tmp_path / "images" / "cat").mkdir(parents=True)
    Image.new("L", (8, 8)).save(tmp_path / "images" / "cat" / "1.png")
    for name in ("t.jsonl", "images"):
        with pytest.raises(UsageError) as refused:
            read_examples(tmp_path / name, source)
        assert ".npz" in (refused.value.remedy or "")


def test_a_folder_of_images_has_its_classes_in_the_names_of_folders(classifier: Path, tmp_path: Path) -> None:
    import shutil

    from PIL import Image

    model, images = tmp_path / "vit", tmp_path / "images"
    shutil.copytree(classifier, model)
    size = {"height": 8, "width": 8}
    (model / "preprocessor_config.json").write_text(json.dumps({
        "image_processor_type": "ViTImageProcessor", "size": size, "image_mean": [0.5], "image_std": [0.5],
    }))  # fmt: skip
    for index, name in enumerate(("owl", "cat")):
        (images / name).mkdir(parents=True)
        Image.new("L", (16, 16), 100 * index).save(images / name / "1.png")
    examples = read_examples(images, resolve(str(model)))
    assert examples.ids == ("cat/1.png", "owl/1.png") and examples.targets.tolist() == [0, 2]
    assert examples.inputs["pixel_values"].shape == (2, 1, 8, 8)
    (images / "cow").mkdir()
    (images / "cow" / "1.png").write_bytes(b"no image")
    with pytest.raises(UsageError) as refused:
        read_examples(images, resolve(str(model)))
    assert "cow/1.png" in refused.value.detail


def test_a_model_that_no_data_can_judge_wants_a_command(tmp_path: Path) -> None:
    (tmp_path / "d.npz").write_bytes(b"")
    with pytest.raises(UnsupportedWorkload) as refused:
        evaluate(read_evaluator(str(tmp_path / "d.npz")), "bert-tiny", weights="random")
    assert "--eval" in (refused.value.remedy or "")
    with pytest.raises(UsageError):
        read_evaluator(str(tmp_path / "absent.npz"))
    with pytest.raises(UsageError):
        read_evaluator("no-such-program-here {model}")


def judged_by(script: str, model: Path, folder: Path, **how: Any) -> Scores:
    """What a command says that runs a script with the model's folder as its argument."""
    program = folder / "judge.py"
    program.write_text(f"import json, os, sys, time\nmodel = sys.argv[1]\n{script}\n")
    evaluator = read_evaluator(f"{sys.executable} {program} {{model}}")
    return evaluate(evaluator, str(model), **how)


def test_a_command_scores_examples_by_id_in_any_order(classifier: Path, tmp_path: Path) -> None:
    script = "assert os.environ['ASSAY_MODEL'] == model\nfor i in ids: print(json.dumps({'id': i, 'score': i % 2}))"
    ahead = judged_by("ids = range(4)\n" + script, classifier, tmp_path, check_repeats=True)
    back = judged_by("ids = [3, 2, 1, 0]\n" + script, classifier, tmp_path)
    assert (ahead.ids, ahead.values.tolist(), ahead.unit) == (("0", "1", "2", "3"), [0, 1, 0, 1], "pt")
    assert paired_loss(ahead, back).loss == 0
    document = "print(json.dumps({'metric': 'bleu', 'unit': 'points', 'direction': 'higher', 'scores': [20.5, 31.0]}))"
    bleu = judged_by(document, classifier, tmp_path)
    assert (bleu.metric, bleu.unit, bleu.values.tolist()) == ("bleu", "points", [20.5, 31.0])
    with pytest.raises(UsageError) as refused:
        paired_loss(ahead, bleu)
    assert "other examples" in refused.value.detail


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("sys.exit('no such table')", "no such table"),
        ('print(\'{"id": 1, "score": NaN}\')', "nan"),
        ("pass", "no score"),
        ("print('accuracy: 0.9')", "no JSON"),
        ("print(json.dumps({'scores': {'a': 'x'}}))", "score 1"),
        ("print(json.dumps({'accuracy': 0.9}))", "without `scores`"),
        ("[print(json.dumps({'id': 1, 'score': 1})) for _ in '12']", "twice"),
        ("print(json.dumps({'unit': 'pt', 'scores': [50]}))", "outside of 0 to 1"),
        ("print(json.dumps({'direction': 'up', 'scores': [1]}))", "'up'"),
    ],
)
def test_a_command_that_gives_no_scores_is_refused(script: str, says: str, classifier: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        judged_by(script, classifier, tmp_path)
    assert says in refused.value.detail and refused.value.remedy


def test_a_command_that_changes_between_runs_is_refused_with_both_numbers(classifier: Path, tmp_path: Path) -> None:
    script = f"n = open({str(tmp_path / 'n')!r}, 'a+')\nn.write('x'); n.seek(0)\nprint(json.dumps({{'scores': [len(n.read()) / 4]}}))"
    with pytest.raises(UsageError) as refused:
        judged_by(script, classifier, tmp_path, check_repeats=True)
    assert "changes between runs" in refused.value.detail
    assert "0.25" in refused.value.detail and "0.5" in refused.value.detail


def test_a_command_is_ended_with_what_it_has_started_when_its_time_is_over(classifier: Path, tmp_path: Path) -> None:
    import psutil

    script = (
        f"import subprocess\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\ntime.sleep(60)"
    )
    with pytest.raises(UsageError) as refused:
        judged_by(script, classifier, tmp_path, timeout_s=2.0)
    assert "after 2 s" in refused.value.detail
    with suppress(psutil.NoSuchProcess):
        child = psutil.Process(int((tmp_path / "pid").read_text()))
        _, alive = psutil.wait_procs([child], timeout=20)
        assert not alive or child.status() == psutil.STATUS_ZOMBIE


def test_scores_of_two_metrics_are_not_paired() -> None:
    one = Scores(metric="f1", values=np.ones(2), ids=("a", "b"))
    with pytest.raises(AssayError):
        paired_loss(one, Scores(metric="em", values=np.ones(2), ids=("a", "b")))
    assert agreeing(one, one) is one
