"""What leaves the machine in a message."""

from __future__ import annotations

import pytest

from runner.machine.scrub import private_parts, scrub


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("cannot open /home/ada/models/secret/model.bin", "cannot open …/model.bin"),
        ('File "/opt/x/lib/python3.11/torch/nn.py", line 3', 'File "…/nn.py", line 3'),
        (r"no such file: C:\Users\Ada\weights.bin", "no such file: …/weights.bin"),
        ("see ~/notes.txt", "see …/notes.txt"),
        ("GET https://hub.example/ada/private?token=1 failed", "GET <https address> failed"),
        ("connect to 10.1.2.3 refused", "connect to <address> refused"),
        ("mail ada@example.org", "mail <address>"),
        ("token hf_abcdefghijkl was refused", "token <token> was refused"),
        ("token hf_oauth_abc.def-0123 was refused", "token <token> was refused"),
        ("results of hf_llama_test_results.json", "results of hf_llama_test_results.json"),
        ("\x1b[96mstep 3/3\x1b[0m failed", "step 3/3 failed"),
        ("user ada on lovelace", "user <private> on <private>"),
        ("shape [2, 128] against 3/4 of N/A", "shape [2, 128] against 3/4 of N/A"),
    ],
)
def test_private_parts_go_and_the_rest_stays(message: str, expected: str) -> None:
    assert scrub(message, names=("ada", "lovelace")) == expected


def test_long_messages_are_cut() -> None:
    assert len(scrub("x" * 5000, names=(), limit=100)) == 100


def test_a_name_inside_a_word_is_not_touched() -> None:
    assert scrub("adapter", names=("ada",)) == "adapter"


@pytest.mark.parametrize(
    "left",
    ["cannot open …/model.bin", "…/nn.py", "/proc/cpuinfo cpu MHz", "N/A", "2 cores / 4", "google/vit-base", "<token>"],
)
def test_what_scrubbing_leaves_and_what_every_machine_has_is_not_private(left: str) -> None:
    assert private_parts(left, names=("ada",)) == []


@pytest.mark.parametrize(
    "private",
    [
        "/home/ada/x",
        r"C:\Users\Ada\w.bin",
        "~/notes.txt",
        "https://hub.example/x",
        "10.1.2.3",
        "ada@example.org",
        "ada",
    ],
)
def test_private_parts_are_found_where_they_stand(private: str) -> None:
    assert private in private_parts(f"see {private} there", names=("ada",))
