"""Sources: a checkpoint is loaded where there is one, and what cannot be found says what to do."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading

import pytest
import torch

from domain.configuration import Workload
from domain.errors import PartMissing, ServiceUnavailable, UnknownModel, UsageError
from runner.models.build import NotEnoughMemory, build, build_meta
from runner.models.inputs import make_inputs
from runner.models.sources import hub_problem, resolve
from runner.models.weights import choose_weights


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    """No test asks the network: the hub is switched off the way a user would switch it off."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub_problem.cache_clear()
    yield
    hub_problem.cache_clear()


@pytest.fixture
def checkpoint(tmp_path):
    """A folder that save_pretrained wrote, with weights unlike any that a seed would give."""
    built = build(resolve("assay/llama-small", "random"))
    with torch.no_grad():
        built.module.model.norm.weight.fill_(0.125)
    folder = tmp_path / "my llama"
    built.module.save_pretrained(folder)
    return folder


def test_a_saved_checkpoint_is_loaded_as_pretrained_with_its_own_weights(checkpoint) -> None:
    source = resolve(str(checkpoint), "auto")
    built = build(source)
    assert (built.id, built.family, built.category, built.weights) == (
        "local/my-llama",
        "llama",
        "text_generation",
        "pretrained",
    )
    assert torch.equal(built.module.model.norm.weight, torch.full((128,), 0.125))
    assert built.notes == ()
    inputs = make_inputs(built, Workload(mode="inference", sequence_length=8))
    with torch.inference_mode():
        assert built.module(**inputs).logits.shape == (1, 8, 8192)


def test_the_same_folder_with_random_weights_leaves_the_checkpoint_alone(checkpoint) -> None:
    built = build(resolve(str(checkpoint), "random"))
    assert built.weights == "random"
    assert torch.equal(built.module.model.norm.weight, torch.ones(128))


def test_a_config_alone_builds_with_random_weights_and_says_so(checkpoint) -> None:
    (checkpoint / "model.safetensors").unlink()
    built = build(resolve(str(checkpoint / "config.json")))
    assert built.weights == "random"
    assert "random" in built.notes[0]
    with pytest.raises(UsageError, match="no weights"):
        resolve(str(checkpoint), "pretrained")


def test_a_broken_checkpoint_is_refused_rather_than_replaced_by_random_weights(checkpoint) -> None:
    (checkpoint / "model.safetensors").write_bytes(b"not a checkpoint")
    with pytest.raises(UsageError, match="cannot be loaded"):
        build(resolve(str(checkpoint)))


def rewrite(folder, change) -> None:
    """Save the folder's tensors again after `change` did its work on them."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_checkpoint_that_lacks_a_tensor_is_refused_and_the_tensor_named(checkpoint) -> None:
    rewrite(checkpoint, lambda tensors: tensors.pop("model.norm.weight"))
    with pytest.raises(UsageError, match=r"does not match its config; missing: model\.norm\.weight") as caught:
        build(resolve(str(checkpoint)))
    assert caught.value.field == "model" and caught.value.remedy


def test_a_checkpoint_of_more_layers_than_its_config_is_refused(checkpoint) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    with pytest.raises(UsageError, match=r"left over: model\.layers\.1\..* and \d+ more"):
        build(resolve(str(checkpoint)))


def test_a_checkpoint_of_another_width_is_refused_and_the_tensors_named(checkpoint) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))
    with pytest.raises(UsageError, match=r"of another shape: model\.layers\.0\.mlp"):
        build(resolve(str(checkpoint)))


def test_tied_weights_need_not_be_in_a_checkpoint(tmp_path) -> None:
    built = build(resolve("assay/qwen-small", "random"))
    built.module.save_pretrained(tmp_path)
    loaded = build(resolve(str(tmp_path)))
    assert (loaded.weights, loaded.notes) == ("pretrained", ())
    assert loaded.module.lm_head.weight is loaded.module.model.embed_tokens.weight


def test_heads_may_differ_and_the_notes_say_how(tmp_path) -> None:
    trained = build(resolve("bert-tiny", "random"), purpose="training")
    trained.module.save_pretrained(tmp_path / "bert-tiny")
    body = build(resolve(str(tmp_path / "bert-tiny")))
    assert type(body.module).__name__ == "BertForSequenceClassification"
    config = json.loads((tmp_path / "bert-tiny" / "config.json").read_text())
    (tmp_path / "bert-tiny" / "config.json").write_text(json.dumps({**config, "architectures": ["BertModel"]}))
    body = build(resolve(str(tmp_path / "bert-tiny")))
    assert body.weights == "pretrained"
    assert any("not in this class: classifier.bias, classifier.weight" in note for note in body.notes)
    body.module.save_pretrained(tmp_path / "body")
    headed = build(resolve(str(tmp_path / "body")), purpose="training")
    assert any("random values: classifier.bias, classifier.weight" in note for note in headed.notes)


def test_a_checkpoint_in_shards_is_loaded_from_all_of_them(checkpoint, tmp_path) -> None:
    whole = build(resolve(str(checkpoint)))
    whole.module.save_pretrained(tmp_path / "sharded", max_shard_size="1MB")
    assert len(list((tmp_path / "sharded").glob("model-*.safetensors"))) > 1
    again = build(resolve(str(tmp_path / "sharded")))
    assert again.weights == "pretrained"
    assert all(torch.equal(a, b) for a, b in zip(whole.module.parameters(), again.module.parameters(), strict=True))


def test_a_pickled_checkpoint_is_opened_only_when_that_is_asked_for(checkpoint) -> None:
    module = build(resolve(str(checkpoint))).module
    (checkpoint / "model.safetensors").unlink()
    torch.save(module.state_dict(), checkpoint / "pytorch_model.bin")
    for weights in ("auto", "pretrained"):
        with pytest.raises(UsageError, match="pickle") as caught:
            resolve(str(checkpoint), weights)
        assert "--allow-pickle" in caught.value.remedy
    assert build(resolve(str(checkpoint), "random")).weights == "random"
    allowed = build(resolve(str(checkpoint), allow_pickle=True))
    assert allowed.weights == "pretrained"
    assert torch.equal(allowed.module.model.norm.weight, torch.full((128,), 0.125))


def test_weights_are_made_in_the_type_that_was_asked_for(checkpoint) -> None:
    for weights in ("pretrained", "random"):
        built = build(resolve(str(checkpoint), weights), dtype=torch.bfloat16)
        assert {p.dtype for p in built.module.parameters()} == {torch.bfloat16}
        assert built.dtype == torch.bfloat16


def test_the_choice_of_weights_and_its_reason_are_part_of_the_model(checkpoint) -> None:
    named = build(resolve(str(checkpoint))).model()
    assert (named.weights, named.weights_reason) == ("pretrained", "The checkpoint lies in the folder that was named.")
    asked = build(resolve("assay/llama-small", "random")).model()
    assert (asked.weights, asked.weights_reason) == ("random", "Random weights were asked for.")
    own = build(resolve("assay/llama-small")).model()
    assert "no published checkpoint" in own.weights_reason
    cut_off = choose_weights(resolve("meta-llama/Llama-3.2-1B"))
    assert cut_off.folder is None
    assert "HF_HUB_OFFLINE" in cut_off.reason
    assert "TinyLlama/TinyLlama-1.1B-Chat-v1.0, facebook/opt-125m" in cut_off.reason


class Gate(http.server.BaseHTTPRequestHandler):
    """A hub that knows every model and gives none away."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("X-Error-Code", "GatedRepo")
        self.send_header("X-Error-Message", "Access to this model is restricted.")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815 - the name is the protocol's

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_gate_is_named_and_open_models_are_offered(tmp_path) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gate)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    code = (
        "from domain.errors import ServiceUnavailable\n"
        "from runner.models.sources import resolve\nfrom runner.models.weights import choose_weights\n"
        "print(choose_weights(resolve('llama-3.2-1b')).reason)\n"
        "try: choose_weights(resolve('llama-3.2-1b', 'pretrained'))\n"
        "except ServiceUnavailable as error: print(error)\n"
    )
    endpoint = f"http://127.0.0.1:{server.server_port}"
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    try:
        said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    finally:
        server.shutdown()
        server.server_close()
    reason, refusal = said.stdout.strip().splitlines()
    assert "accepted its publisher's terms" in reason
    assert "Smaller models that anyone may fetch: TinyLlama/TinyLlama-1.1B-Chat-v1.0" in reason
    assert "no checkpoint of meta-llama/Llama-3.2-1B could be loaded" in refusal and "TinyLlama" in refusal


def test_a_folder_named_and_built_like_a_published_model_is_that_model(tmp_path) -> None:
    source = resolve("bert-tiny", "random")
    folder = tmp_path / "bert-tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(source.config))
    assert resolve(str(folder)).id == "prajjwal1/bert-tiny"
    (folder / "config.json").write_text(json.dumps({**source.config, "num_hidden_layers": 3}))
    assert resolve(str(folder)).id == "local/bert-tiny"


def test_random_weights_are_the_same_every_time_and_leave_the_callers_seed_alone() -> None:
    source = resolve("bert-tiny", "random")
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first = build(source)
    assert torch.equal(torch.rand(3), expected)
    second = build(source)
    assert all(torch.equal(a, b) for a, b in zip(first.module.parameters(), second.module.parameters(), strict=True))


def test_random_weights_of_a_prompt_generator_are_no_wider_than_their_fan_in() -> None:
    generator = build(resolve("assay/xclip-small", "random")).module.prompts_generator
    for layer in generator.modules():
        if isinstance(layer, torch.nn.Linear):
            assert layer.weight.std().item() == pytest.approx(layer.in_features**-0.5, rel=0.15)


def test_a_catalogue_model_without_its_checkpoint_is_built_from_its_config() -> None:
    built = build(resolve("bert-tiny"))
    assert (built.weights, built.parameters) == ("random", 4_385_920)
    assert "HF_HUB_OFFLINE" in built.notes[0]


def test_insisting_on_a_checkpoint_that_cannot_be_had_fails_in_one_sentence() -> None:
    with pytest.raises(ServiceUnavailable, match=r"no checkpoint of prajjwal1/bert-tiny.*HF_HUB_OFFLINE") as caught:
        build(resolve("bert-tiny", "pretrained"))
    assert caught.value.remedy
    with pytest.raises(ServiceUnavailable, match="no published checkpoint"):
        build(resolve("assay/clip-small", "pretrained"))


def test_an_unknown_name_comes_with_the_nearest_ones() -> None:
    with pytest.raises(UnknownModel) as caught:
        resolve("bert-bse-uncased")
    assert caught.value.nearest[0] == "google-bert/bert-base-uncased"
    assert caught.value.type == "unknown-model"


def test_an_unknown_hub_id_says_why_the_hub_was_of_no_help() -> None:
    with pytest.raises(UnknownModel, match="HF_HUB_OFFLINE"):
        resolve("nobody/nothing-at-all")


@pytest.mark.parametrize(
    ("content", "message"), [("{", "cannot be read as JSON"), ('{"hidden_size": 3}', "names no model_type")]
)
def test_a_config_that_is_none_is_refused(tmp_path, content: str, message: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UsageError, match=message):
        resolve(str(tmp_path))


def test_an_empty_folder_is_refused_with_what_it_should_hold(tmp_path) -> None:
    with pytest.raises(UsageError, match=r"no config\.json") as caught:
        resolve(str(tmp_path))
    assert "save_pretrained" in caught.value.remedy


def test_code_of_a_checkpoint_is_not_run_unless_asked_for(tmp_path) -> None:
    config = {"model_type": "homemade", "auto_map": {"AutoConfig": "evil.Config"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "evil.py").write_text("raise SystemExit('this code was run')")
    with pytest.raises(UsageError, match="brings its own code") as caught:
        build_meta(resolve(str(tmp_path)))
    assert "--trust-remote-code" in caught.value.remedy


def test_a_model_type_nobody_knows_is_refused(tmp_path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "homemade"}')
    with pytest.raises(UsageError, match="homemade"):
        build_meta(resolve(str(tmp_path)))


def test_weights_have_three_choices() -> None:
    with pytest.raises(UsageError, match="auto, pretrained, random"):
        resolve("bert-tiny", "best")


def test_what_cannot_fit_into_memory_is_refused_before_it_is_built(tmp_path) -> None:
    config = {**resolve("assay/llama-small").config, "hidden_size": 1 << 17, "intermediate_size": 1 << 19}
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 64}))
    with pytest.raises(NotEnoughMemory, match="GB of memory are free"):
        build(resolve(str(tmp_path)))


def test_timm_models_are_built_where_timm_is_and_name_its_package_where_it_is_not() -> None:
    try:
        import timm  # noqa: F401
    except (ImportError, RuntimeError):
        with pytest.raises(PartMissing, match="timm") as caught:
            resolve("timm/resnet18")
        assert "pip install timm" in caught.value.remedy
    else:
        built = build_meta(resolve("timm/resnet18", "random"))
        assert built.parameters == 11_689_512


def test_finding_a_model_imports_nothing_heavy() -> None:
    code = (
        "import sys; from runner.models.sources import resolve; resolve('bert-base-uncased', 'random');"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_folder_named_after_one_family_that_holds_another_is_the_other(tmp_path) -> None:
    folder = tmp_path / "bert-base-uncased"
    folder.mkdir()
    config = {"model_type": "vit", "architectures": ["ViTForImageClassification"]}
    (folder / "config.json").write_text(json.dumps(config))
    found = resolve(str(folder), "random")
    assert (found.id, found.family, found.category, found.task) == (
        "local/bert-base-uncased", "vit", "vision", "image-classification",
    )  # fmt: skip
