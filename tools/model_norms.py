"""Read the norms of ten language models, and adaptive norms, off their shipped classes, small and
with random weights, and write normbook/data/model_norms.json: make peers. Every word is an answer
to a run; how far the norm and the block of the book are from the shipped ones is kept."""

import ast
import sys
from collections import defaultdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import absent_operators  # noqa: F401
import store
import torch
import transformers as hf
from diffusers.models import normalization as n

from normbook.studies import norms_in_language_models as ours

hf.logging.set_verbosity_error()
TARGET = Path(__file__).resolve().parents[1] / "normbook" / "data" / "model_norms.json"
D, HEAD = 48, 12
COMMON = {"hidden_size": D, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 96}
COMMON |= {"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": HEAD, "pad_token_id": 0}
COMMON |= {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": HEAD, "v_head_dim": HEAD}
COMMON |= {"first_k_dense_replace": 1, "num_local_experts": 2, "num_experts_per_tok": 1}
DECODERS = {"Llama": hf.LlamaConfig, "Mistral": hf.MistralConfig, "Qwen3": hf.Qwen3Config}
DECODERS |= {"Gemma 3": hf.Gemma3TextConfig, "OLMo 2": hf.Olmo2Config}
DECODERS |= {"DeepSeek-V3": hf.DeepseekV3Config, "gpt-oss": hf.GptOssConfig}
# A maker, the configuration, the first block, and where its branches begin and end.
WHOLE, USUAL = hf.AutoModelForCausalLM, ("self_attn", "mlp")
MODELS = {n: (WHOLE, c(**COMMON), "model.layers.0", USUAL, USUAL) for n, c in DECODERS.items()}
parts = "layer.0.SelfAttention", "layer.1.DenseReluDense"
MODELS["T5"] = hf.AutoModelForSeq2SeqLM, hf.T5Config(**COMMON), "encoder.block.0", parts, parts
parts = "attn", "mlp"
MODELS["GPT-2"] = (WHOLE, hf.GPT2Config(**COMMON), "transformer.h.0", parts, parts)
parts = ("attention.self", "intermediate"), ("attention.output.dense", "output.dense")
MODELS["BERT"] = hf.AutoModelForMaskedLM, hf.BertConfig(**COMMON), "bert.encoder.layer.0", *parts


def norms_of(net: torch.nn.Module) -> dict[str, torch.nn.Module]:
    return {at: m for at, m in net.named_modules() if type(m).__name__.endswith("Norm")}


def watch(net: torch.nn.Module) -> dict:
    """What goes into each module and comes out of it, in the order in which they are done."""
    seen = {}
    for name, module in net.named_modules():

        def hook(_, given, named, out, name=name):
            out = out if torch.is_tensor(out) else out[0]
            seen.setdefault(name, ((*given, *named.values())[0], out))

        module.register_forward_hook(hook, with_kwargs=True)
    return seen


def rotated(net: torch.nn.Module) -> list[torch.Tensor]:
    """Queries and keys as they are handed to the rotary embedding, once the model has run."""
    module, found = sys.modules[type(net).__module__], []
    shipped = getattr(module, "apply_rotary_pos_emb", None)
    module.apply_rotary_pos_emb = lambda q, k, *more: found.extend([q, k]) or shipped(q, k, *more)
    return found


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.numel() == b.numel() and torch.equal(a.flatten().sort()[0], b.flatten().sort()[0])


def on_queries(inside: list, turned: list) -> str:
    """What is normalized inside attention: queries and keys, if that is what is turned then."""
    if not all(any(same(out, each) for each in turned) for _, out in inside) or not inside:
        return "no; its latents" if inside else "no"
    return "each head" if inside[0][1].shape[-1] == HEAD else "all heads"


def read(name: str) -> dict:
    kind, config, layer, starts, ends = MODELS[name]
    torch.manual_seed(0)
    net = kind.from_config(config, attn_implementation="eager").eval()
    norms = norms_of(net)
    for p in [p for norm in norms.values() for p in norm.parameters()]:
        p += 0.3 * torch.randn_like(p)
    words, seen, turned = torch.arange(1, 15).reshape(2, 7), watch(net), rotated(net)
    net(words, **({"decoder_input_ids": words} if name == "T5" else {}))
    inside = [n for n in seen if n in norms and n.startswith(f"{layer}.{starts[0]}.")]
    own = [norms[n] for n in seen if n in norms and n.startswith(layer) and n not in inside]
    ways = zip(starts, ends, strict=True)
    through = [(seen[f"{layer}.{a}"][0], seen[f"{layer}.{z}"][1]) for a, z in ways]
    place, apart = ours.placed(*seen[layer], through, [*map(ours.our_norm, own)])
    (key,) = {"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps"} & set(config.to_dict())
    setattr(config, key, 1e-3)
    eps = {n: ours.eps_of(m) for n, m in norms_of(kind.from_config(config)).items()}
    first, x, tied = own[0], 3 * ours.numbers(256, D, seed=9), net.get_output_embeddings().weight
    return {
        "model": name,
        "norm": "layer norm" if ours.is_centred(first) else "RMSNorm",
        "ε": ours.eps_of(first),
        "stored": "γ − 1" if ours.is_stored_less_one(first) else "γ",
        "β": bool(first(torch.zeros(D)).abs().max() > 0.1),
        "rounds": ours.rounds(first),
        "mixed": str(first(x.bfloat16()).dtype).removeprefix("torch."),
        "place": place,
        "QK-norm": on_queries([seen[n] for n in inside], turned),
        "last norm": any(same(seen[n][0], seen[layer][1]) for n in norms if n in seen),
        "tied": net.get_input_embeddings().weight is tied,
        "norm apart": store.kept((ours.our_norm(first)(x) - first(x)).abs().max().item()),
        "block apart": store.kept(apart),
        "other eps": [f"{n.rsplit('.', 1)[-1]}: {e}" for n, e in eps.items() if e != 1e-3],
    }


def read_adaptive() -> list[dict]:
    """How the adaptive norms of diffusers take their numbers apart, and from where they start."""
    x, spread, c = torch.randn(2, 6, D), torch.randn(2, D, 4, 4), torch.randn(2, D)
    layer, group = torch.nn.functional.layer_norm, torch.nn.functional.group_norm
    ask = {  # a module, its output, how many parts its linear layer gives, and the norm inside
        "AdaLayerNorm, chunk_dim=0": (n.AdaLayerNorm(D), lambda m: m(x[:1], temb=c[0]), 2, layer),
        "AdaLayerNorm, chunk_dim=1": (
            n.AdaLayerNorm(D, chunk_dim=1), lambda m: m(x, temb=c), 2, layer),
        "AdaLayerNormContinuous": (
            n.AdaLayerNormContinuous(D, D, False), lambda m: m(x, c), 2, layer),
        "AdaLayerNormZero": (n.AdaLayerNormZero(D), lambda m: m(x, emb=c)[0], 6, layer),
        "AdaGroupNorm": (n.AdaGroupNorm(D, D, 4), lambda m: m(spread, c), 2, group),
    }  # fmt: skip
    found = []
    for name, (module, call, count, norm) in ask.items():
        y, act = call(module), getattr(module, "silu", lambda c: c)
        given = (spread, 4) if norm is group else (x[: len(y)], (D,))
        parts = module.linear(act(c[: len(y)])).chunk(count, dim=1)[:2]
        shape = (-1, D, 1, 1) if norm is group else (-1, 1, D)
        a, b = (part.reshape(shape) for part in parts)
        eps = module.eps if norm is group else module.norm.eps
        xhat = norm(*given, eps=eps)
        apart = {"scale first": xhat * (1 + a) + b - y, "shift first": xhat * (1 + b) + a - y}
        order = min(apart, key=lambda o: apart[o].abs().max())
        found.append({
            "class": name,
            "ε": eps,
            "order": order,
            "γ and β inside": any("norm" in at for at, _ in module.named_parameters()),
            "starts at 0": not module.linear.weight.abs().max(),
            "apart": store.kept(apart[order].abs().max().item()),
        })  # fmt: skip
    return found


def census() -> list[dict]:
    """What all RMSNorm classes of transformers store and where they round, as far as they can be
    built from a width alone: how many, and of which families."""
    found = defaultdict(set)
    for path in sorted(Path(hf.__file__).parent.glob("models/*/modeling_*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if not isinstance(node, ast.ClassDef) or "RMSNorm" not in node.name:
                continue
            node.decorator_list, scope = [], {"torch": torch, "nn": torch.nn}
            scope |= {"F": torch.nn.functional}
            if "Gated" in node.name:
                continue
            try:
                exec(f"from __future__ import annotations\n{ast.unparse(node)}", scope)
                norm = scope[node.name](D)
                norm.weight += 0.3 * ours.numbers(D)
                stored = "γ − 1" if ours.is_stored_less_one(norm) else "γ"
                found[stored, ours.rounds(norm)].add((path.parent.name, node.name))
            except Exception as why:  # most want more than a width
                found["?", type(why).__name__].add((path.parent.name, node.name))
    return [
        {
            "stored": stored,
            "rounds": rounds,
            "classes": len(classes),
            "families": sorted({family for family, _ in classes}),
        }
        for (stored, rounds), classes in sorted(found.items())
    ]


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    asked = {"date": datetime.now(UTC).date().isoformat()}
    packages = "torch", "transformers", "diffusers"
    asked["versions"] = {name: version(name).partition("+")[0] for name in packages}
    asked["adaptive"] = read_adaptive()
    asked["census"] = census()
    store.write_json(TARGET, asked | {"models": [read(name) for name in MODELS]})
