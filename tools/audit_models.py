"""Audit real architectures with random weights, say the time, and fail if an alarm comes."""

import sys
import time

import absent_operators  # noqa: F401
import diffusers
import timm
import torch
import torchvision
import transformers as hf

from normlib.audit import audit_norms

SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 99}
SMALL |= {"num_attention_heads": 4, "num_key_value_heads": 4}
UNET = {"sample_size": 16, "block_out_channels": (32, 64), "cross_attention_dim": 32}
UNET |= {"down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D")}
UNET |= {"up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"), "attention_head_dim": 8}
WORDS = [{"input_ids": (x := torch.randint(99, (4, 16))), "labels": x} for _ in range(2)]
NOISE = [
    {
        "sample": torch.randn(2, 4, 16, 16),
        "timestep": torch.tensor([1, 2]),
        "encoder_hidden_states": torch.randn(2, 5, 32),
    }
]


def images(size: int) -> list:
    return [(torch.randn(size, 3, 224, 224), torch.arange(size)) for _ in range(2)]


MODELS = {
    "ResNet-50": lambda: (torchvision.models.resnet50(), images(16)),
    "ConvNeXt": lambda: (timm.create_model("convnext_atto"), images(4)),
    "EfficientNet": lambda: (timm.create_model("efficientnet_b0"), images(4)),
    "ViT": lambda: (timm.create_model("vit_tiny_patch16_224"), images(4)),
    "Llama": lambda: (hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL)), WORDS),
    "BERT": lambda: (hf.BertForMaskedLM(hf.BertConfig(**SMALL)), WORDS),
    "UNet": lambda: (diffusers.UNet2DConditionModel(**UNET), NOISE),
}

if __name__ == "__main__":
    alarms = 0
    for name, make in MODELS.items():
        torch.manual_seed(0)
        model, batches = make()
        for training in (True, False):
            start = time.perf_counter()
            found = audit_norms(model.train(training), batches)
            alarms += len(found.findings)
            print(f"{name}, {time.perf_counter() - start:.1f} s\n{found}\n", flush=True)
    sys.exit(f"{alarms} alarms on networks of random weights" if alarms else None)
