"""Lists of LocalScore results: units, quantisations and devices as people's machines name them. The rows are ours."""

from __future__ import annotations

import pytest

from ingest.importers.serving.localscore import LocalScore

LIST = """\
test_num,test_date,gen_tps,ttft,ttft_unit,prompt_tps,localscore,model_name,model_quant,accel_name,accel_type,accel_group,accel_ram,system_cpu,system_os
1,2025.03.19 21:50:00,100.5,350,ms,3500,1000,Acme 8B Instruct,Q4_K - Medium,NVIDIA GeForce RTX 3090,GPU,NVIDIA GPU,24,x,Linux
2,2025.03.19 21:51:00,20,5.5,s,200,100,Acme 8B Instruct,Q8_0,Apple M1 Pro 8P+2E+16GPU,GPU,Apple GPU,32,x,Darwin
3,,8,2000,ms,100,50,Acme 8B Instruct,F16,AMD EPYC 7352 24-Core Processor (znver2),CPU,AMD CPU,128,x,Linux
4,,8,2000,min,100,50,Acme 8B Instruct,F16,AMD Radeon RX 6650 XT,GPU,AMD GPU,8,x,Linux
5,,,,ms,100,50,Acme 8B Instruct,F16,AMD Radeon RX 6650 XT,GPU,AMD GPU,8,x,Linux
"""


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_rows_in_both_forms(reads, place, suffix, delimiter):
    content = LIST.replace(",", delimiter)
    assert LocalScore().sniff(place(content, f"list.{suffix}"))
    found = reads(LocalScore(), content, f"list.{suffix}")
    geforce, apple, cpu = found.data
    assert geforce["metrics"] == {"tokens_per_s": 100.5, "ttft_ms": 350.0}
    assert (geforce["hardware"]["id"], geforce["execution"]["platform"]) == ("nvidia-rtx-3090", "cuda")
    assert (geforce["execution"]["precision"], geforce["execution"]["options"]["quantisation"]) == (
        "int4",
        "Q4_K - Medium",
    )
    assert found.rows[0]["time"] == "2025-03-19T21:50:00+00:00" and "time" not in found.rows[2]
    assert apple["metrics"]["ttft_ms"] == 5500.0
    assert (apple["hardware"]["id"], apple["execution"]["platform"]) == ("apple-m1-pro-gpu", "mps")
    assert (cpu["execution"]["platform"], cpu["execution"]["precision"]) == ("cpu", "fp16")
    assert "znver2" not in cpu["hardware"]["id"] and cpu["hardware"]["kind"] == "cpu"
    assert geforce["execution"]["options"]["lengths"] == "localscore" and "input_tokens" not in geforce["workload"]
    assert [(refused.row, refused.field) for refused in found.refused] == [(5, "ttft_unit"), (6, "gen_tps")]
