"""Writes a small Llama model without weights: configuration and a byte-level tokenizer (`--load-format dummy` fills it).

usage: vllm_model.py FOLDER --hidden N --layers N
"""
import argparse
import pathlib

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, PreTrainedTokenizerFast

VOCABULARY = 512
HEAD_WIDTH = 64
TEXT = [
    "a step of the engine runs every layer of the model once for each sequence of its batch",
    "the slowest rank decides when a collective ends, and every other rank waits for it",
    "requests arrive, wait in a queue, are scheduled, prefilled, decoded and streamed back",
]
CHAT_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def make_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(TEXT * 8, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        chat_template=CHAT_TEMPLATE,
    )


def make_config(hidden: int, layers: int) -> LlamaConfig:
    heads = hidden // HEAD_WIDTH
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        head_dim=HEAD_WIDTH,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        tie_word_embeddings=False,
    )
    config.architectures = ["LlamaForCausalLM"]
    config.dtype = "bfloat16"
    return config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--hidden", type=int, required=True, help="a multiple of 256")
    parser.add_argument("--layers", type=int, required=True)
    options = parser.parse_args()
    if options.hidden <= 0 or options.hidden % (4 * HEAD_WIDTH) != 0:
        parser.error("--hidden must be a multiple of 256, so that heads divide among ranks")
    options.folder.mkdir(parents=True, exist_ok=True)
    make_tokenizer().save_pretrained(options.folder)
    make_config(options.hidden, options.layers).save_pretrained(options.folder)


if __name__ == "__main__":
    main()
