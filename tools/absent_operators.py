"""Imported before torchvision, whose wheel is built for a torch with a GPU: without its operators,
their names."""

import torch

OPS = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    OPS.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
