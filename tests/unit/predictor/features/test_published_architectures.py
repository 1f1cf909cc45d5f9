"""Shipped traces of published architectures: their parameters and operations are those that others state for them."""

from __future__ import annotations

import json

import pytest

from ingest import evidence
from predictor.answering.facts import trace_from_row
from predictor.features.dataset import row_from_event
from predictor.features.shipped_traces import renamed_models, shipped_models, shipped_rows
from predictor.features.traces import Trace, TraceBook

PARAMETERS = {
    # millions, as quic/ai-hub-models says in the manifest of the model
    "ai-hub/face_det_lite/Lightweight-Face-Detection": 0.878,
    "ai-hub/facemap_3dmm/Facial-Landmark-Detection": 5.42,
    "ai-hub/foot_track_net/Person-Foot-Detection": 2.53,
    "ai-hub/gear_guard_net/PPE-Detection": 6.19,
    "ai-hub/mediapipe_selfie/MediaPipe-Selfie-Segmentation": 0.106,
    "architecture/aot-gan": 15.2,
    "architecture/bgnet": 77.8,
    "architecture/conditional-detr-resnet50": 43.6,
    "architecture/craft": 20.8,
    "architecture/crnn-english": 3.84,
    "architecture/deeplabv3plus-mobilenetv2": 5.80,
    "architecture/deepbox-vgg19": 46.1,
    "architecture/deeplabv3plus-xception65": 41.26,
    "architecture/depth-anything-small": 24.7,
    "architecture/detr-resnet101": 60.3,
    "architecture/detr-resnet50": 41.4,
    "architecture/esrgan-x4": 16.7,
    "architecture/ffnet-122ns-lowres": 32.1,
    "architecture/ffnet-40s": 13.9,
    "architecture/ffnet-54s": 18.0,
    "architecture/ffnet-78s": 27.5,
    "architecture/ffnet-78s-lowres": 26.8,
    "architecture/hrnet-w18-face": 9.68,
    "architecture/hrnet-w32-pose": 28.5,
    "architecture/ir-se-100": 65.5,
    "architecture/mediapipe-face-detector": 0.135,
    "architecture/mediapipe-face-landmarks": 0.603,
    "architecture/mediapipe-hand-landmarks": 2.01,
    "architecture/mediapipe-palm-detector": 1.76,
    "architecture/mediapipe-pose-detector": 0.815,
    "architecture/mediapipe-pose-landmarks": 3.36,
    "architecture/midas-small": 16.6,
    "architecture/posenet-mobilenet": 3.31,
    "architecture/pspnet-resnet101": 65.7,
    "architecture/quicksrnet-large": 0.436,
    "architecture/quicksrnet-medium": 0.0610,
    "architecture/quicksrnet-small": 0.0333,
    "architecture/real-esrgan-general-x4": 1.21,
    "architecture/segformer-b0": 3.75,
    "architecture/sesr-m5": 0.343,
    "architecture/unet-carvana": 31.0,
    "architecture/videomae-base": 87.7,
    "architecture/xlsr": 0.028,
    "architecture/yamnet": 3.73,
    "architecture/yolov8n-seg": 3.43,
    "architecture/yolov8x-seg": 72.2,
    "torchvision/googlenet": 6.62,
    "torchvision/mc3_18": 11.7,
    "torchvision/r2plus1d_18": 31.5,
    "torchvision/r3d_18": 33.4,
    # as NVIDIA/DeepLearningExamples says in its READMEs, and Wang et al. (CVPR 2022) of GPUNet
    "architecture/gpunet-0": 11.9,
    "architecture/gpunet-1": 12.7,
    "architecture/gpunet-2": 25.8,
    "architecture/gpunet-d1": 10.6,
    "architecture/gpunet-d2": 19.0,
    "architecture/hifigan-v1": 13.92,
    "architecture/jasper": 333.0,
    "architecture/quartznet": 18.9,
    "architecture/transformer-xl-base": 192.0,
    # as the publishers of the weights count them
    "facebook/opt-1.3b": 1315.76,
    "google-bert/bert-large-uncased": 335.14,
    "openai-community/gpt2-large": 774.03,
    "openai/clip-vit-base-patch16": 149.62,
}
OPERATIONS = {
    # GFLOPs and millions of parameters, as openvinotoolkit/open_model_zoo says in models/public
    "architecture/caffenet": (1.5, 60.965),
    "architecture/inception-v2": (4.058, 11.185),
    "architecture/ssd-mobilenet-v1": (2.494, 6.807),
    "architecture/ssd-mobilenet-v2": (3.775, None),
    "architecture/ssd-resnet34-1200": (433.411, 20.058),
    "architecture/ssd-resnet50-v1-fpn": (178.6807, None),
    "architecture/unet-camvid": (260.1, 31.03),
    "architecture/yolov3": (65.984, 61.922),
    "architecture/yolov3-tiny": (5.582, 8.848),
    # Tan et al. count multiply-accumulates
    "architecture/efficientdet-d0": (2 * 2.54, 3.9),
    # as the authors say of each size
    "architecture/yolov5m": (49.0, 21.2),
    "architecture/yolov6n": (11.4, 4.7),
    "architecture/yolov7-tiny": (13.8, 6.2),
    "architecture/yolov8n": (8.7, 3.2),
    "architecture/yolov10n": (6.7, 2.3),
    "architecture/yolo11n": (6.5, 2.6),
    "architecture/yolox-s": (26.8, 9.0),
    # torchvision states thousand millions of multiply-accumulates
    "torchvision/squeezenet1_0": (2 * 0.819, 1.248),
    "torchvision/squeezenet1_1": (2 * 0.349, 1.235),
    "torchvision/shufflenet_v2_x1_0": (2 * 0.145, 2.279),
    "torchvision/shufflenet_v2_x2_0": (2 * 0.583, 7.394),
    "torchvision/mnasnet1_3": (2 * 0.526, 6.282),
    "torchvision/wide_resnet101_2": (2 * 22.753, 126.887),
    # Hong et al. and Xu et al. count multiply-accumulates
    "architecture/ddrnet23-slim": (2 * 36.3, 5.7),
    "architecture/pidnet-s": (2 * 47.6, 7.6),
}
CLOSE = 0.035
"""Biases and norms are counted by some and not by others; a 1,001st class, and anchors, by none alike."""
SOURCES = {
    "ai-hub": 0.88,
    "deep-learning-examples": 0.93,
    "neural-compressor": 0.93,
    "neusight": 0.9,
    "openvino": 0.86,
    "openvino-model-server": 1.0,
    "pytorch-gpu-benchmark": 1.0,
    "tensorrt-bert": 1.0,
    "timm": 0.99,
    "whisper-cpp": 1.0,
}
"""Share of the rows of a source whose work is known. OpenVINO's others are served language models and one diffusion."""


def trace_of(model: str) -> Trace:
    """Return the first forward trace of a model."""
    return next(trace for row in shipped_rows([model]) if (trace := trace_from_row(row)).phase == "forward")


@pytest.mark.parametrize("model", PARAMETERS)
def test_parameters_are_those_that_the_publisher_states(model: str) -> None:
    assert trace_of(model).totals["parameters"] == pytest.approx(PARAMETERS[model] * 1e6, rel=CLOSE)


@pytest.mark.parametrize("model", OPERATIONS)
def test_operations_are_those_that_the_publisher_states(model: str) -> None:
    operations, parameters = OPERATIONS[model]
    trace = trace_of(model)
    assert trace.totals["flops"] == pytest.approx(operations * 1e9, rel=0.06)
    if parameters is not None:
        assert trace.totals["parameters"] == pytest.approx(parameters * 1e6, rel=CLOSE)


def test_every_other_name_leads_to_a_trace_at_its_sizes() -> None:
    renamed = renamed_models()
    assert set(renamed.values()) - shipped_models() == set()
    names = {row["model_id"] for row in shipped_rows(list(renamed), ("model_id",))}
    assert set(renamed) - names == set()


def test_a_fine_tuned_model_keeps_its_id_and_has_the_work_of_its_architecture() -> None:
    book = TraceBook(
        map(trace_from_row, shipped_rows(["BERT-base-MRPC", "BERT-SQuAD", "google-bert/bert-base-uncased"]))
    )
    classified, answered = book.find("BERT-base-MRPC"), book.find("BERT-SQuAD")
    assert classified is not None and answered is not None
    assert (classified.model, classified.sequence_length) == ("BERT-base-MRPC", 128)
    assert (answered.model, answered.sequence_length) == ("BERT-SQuAD", 384)
    same = book.find("google-bert/bert-base-uncased", sequence_length=384)
    assert same is not None and same.architecture == answered.architecture
    assert (answered.flops * answered.count).sum() == (same.flops * same.count).sum()


def test_a_list_that_names_where_a_model_comes_from_means_the_same_work() -> None:
    rows = shipped_rows(["AlexNet-(ONNX-Model-Zoo)", "AlexNet"])
    assert {row["model_id"] for row in rows} == {"AlexNet-(ONNX-Model-Zoo)", "AlexNet"}
    assert len({row["architecture"] for row in rows}) == 1


def test_a_row_without_sizes_counts_at_the_usual_ones() -> None:
    book = TraceBook(map(trace_from_row, shipped_rows(["google-bert/bert-base-uncased", "timm/resnet50"])))
    bert, resnet = book.find("google-bert/bert-base-uncased"), book.find("timm/resnet50")
    assert bert is not None and bert.sequence_length == 128
    assert resnet is not None and resnet.image_size == 224


@pytest.mark.parametrize("source", SOURCES)
def test_published_rows_find_their_trace(source: str) -> None:
    rows = [
        row
        for batch in evidence.events([source])
        for text in batch
        if (event := json.loads(text))["type"].startswith("assay.measurement.recorded")
        and (row := row_from_event(event)) is not None
    ]
    book = TraceBook(map(trace_from_row, shipped_rows(sorted({row.model for row in rows}))))
    assert sum(book.find_for(row) is not None for row in rows) >= SOURCES[source] * len(rows)
