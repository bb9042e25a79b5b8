"""Sizes of public models that people paste errors of, beyond the presets: as published in their config.json files."""

from __future__ import annotations

ROWS = """
llama-13b            llama    5120  40  40  40 13824  32000
llama-30b            llama    6656  60  52  52 17920  32000
llama-65b            llama    8192  80  64  64 22016  32000
llama-2-70b          llama    8192  80  64   8 28672  32000
llama-3-8b           llama    4096  32  32   8 14336 128256
llama-3-70b          llama    8192  80  64   8 28672 128256
llama-3.1-405b       llama   16384 126 128   8 53248 128256
llama-3.2-3b         llama    3072  28  24   8  8192 128256 tied
llama-3.3-70b        llama    8192  80  64   8 28672 128256
codellama-7b         llama    4096  32  32  32 11008  32016
codellama-13b        llama    5120  40  40  40 13824  32016
codellama-34b        llama    8192  48  64   8 22016  32000
codellama-70b        llama    8192  80  64   8 28672  32016
vicuna-7b            llama    4096  32  32  32 11008  32000
vicuna-13b           llama    5120  40  40  40 13824  32000
open-llama-3b        llama    3200  26  32  32  8640  32000
chinese-llama-2-7b   llama    4096  32  32  32 11008  55296
chinese-llama-2-13b  llama    5120  40  40  40 13824  55296
internlm-7b          llama    4096  32  32  32 11008 103168
internlm-20b         llama    5120  60  40  40 13824 103168
internlm2-1.8b       internlm2 2048 24  16   8  8192  92544
internlm2-7b         internlm2 4096 32  32   8 14336  92544
internlm2-20b        internlm2 6144 48  48   8 16384  92544
internlm3-8b         internlm3 4096 48  32   2 10240 128512
baichuan-7b          llama    4096  32  32  32 11008  64000
baichuan-13b         baichuan 5120  40  40  40 13696  64000
baichuan2-7b         llama    4096  32  32  32 11008 125696
baichuan2-13b        baichuan 5120  40  40  40 13696 125696
yi-6b                llama    4096  32  32   4 11008  64000
yi-9b                llama    4096  48  32   4 11008  64000
yi-34b               llama    7168  60  56   8 20480  64000
deepseek-llm-7b      llama    4096  30  32  32 11008 102400
deepseek-llm-67b     llama    8192  95  64   8 22016 102400
deepseek-coder-1.3b  llama    2048  24  16  16  5504  32256
deepseek-coder-6.7b  llama    4096  32  32  32 11008  32256
deepseek-coder-33b   llama    7168  62  56   8 19200  32256
solar-10.7b          llama    4096  48  32   8 14336  32000
smollm2-360m         llama     960  32  15   5  2560  49152 tied
smollm2-1.7b         llama    2048  24  32  32  8192  49152 tied
smollm3-3b           smollm3  2048  36  16   4 11008 128256 tied
mistral-7b-v0.3      mistral  4096  32  32   8 14336  32768
mistral-nemo         mistral  5120  40  32   8 14336 131072 head_dim=128
mistral-small-22b    mistral  6144  56  48   8 16384  32768
mistral-small-24b    mistral  5120  40  32   8 32768 131072 head_dim=128
mistral-large        mistral 12288  88  96   8 28672  32768
ministral-8b         mistral  4096  36  32   8 12288 131072
codestral-22b        mistral  6144  56  48   8 16384  32768
mixtral-8x7b         mixtral  4096  32  32   8 14336  32000 experts=8
mixtral-8x22b        mixtral  6144  56  48   8 16384  32768 experts=8
qwen-1.8b            qwen     2048  24  16  16  5504 151936
qwen-7b              qwen     4096  32  32  32 11008 151936
qwen-14b             qwen     5120  40  40  40 13696 152064
qwen-72b             qwen     8192  80  64  64 24576 152064
qwen1.5-0.5b         qwen2    1024  24  16  16  2816 151936 tied
qwen1.5-1.8b         qwen2    2048  24  16  16  5504 151936
qwen1.5-4b           qwen2    2560  40  20  20  6912 151936
qwen1.5-7b           qwen2    4096  32  32  32 11008 151936
qwen1.5-14b          qwen2    5120  40  40  40 13696 152064
qwen1.5-32b          qwen2    5120  64  40   8 27392 152064
qwen1.5-72b          qwen2    8192  80  64  64 24576 152064
qwen1.5-110b         qwen2    8192  80  64   8 49152 152064
qwen2-0.5b           qwen2     896  24  14   2  4864 151936 tied
qwen2-1.5b           qwen2    1536  28  12   2  8960 151936 tied
qwen2-7b             qwen2    3584  28  28   4 18944 152064
qwen2-72b            qwen2    8192  80  64   8 29568 152064
qwen2-vl-2b          qwen2    1536  28  12   2  8960 151936 tied
qwen2.5-3b           qwen2    2048  36  16   2 11008 151936 tied
qwen2.5-14b          qwen2    5120  48  40   8 13824 152064
qwen2.5-32b          qwen2    5120  64  40   8 27648 152064
qwen2.5-72b          qwen2    8192  80  64   8 29568 152064
qwen3-1.7b           qwen3    2048  28  16   8  6144 151936 tied head_dim=128
qwen3-4b             qwen3    2560  36  32   8  9728 151936 tied head_dim=128
qwen3-14b            qwen3    5120  40  40   8 17408 151936 head_dim=128
qwen3-32b            qwen3    5120  64  64   8 25600 151936 head_dim=128
qwen3-30b            qwen3_moe 2048 48  32   4   768 151936 head_dim=128 experts=128
qwen3-235b           qwen3_moe 4096 94  64   4  1536 151936 head_dim=128 experts=128
gpt-oss-20b          gpt_oss  2880  24  64   8  2880 201088 head_dim=64 experts=32
gpt-oss-120b         gpt_oss  2880  36  64   8  2880 201088 head_dim=64 experts=128
gemma-7b             gemma    3072  28  16  16 24576 256000 tied head_dim=256
gemma-2-9b           gemma2   3584  42  16   8 14336 256000 tied head_dim=256
gemma-2-27b          gemma2   4608  46  32  16 36864 256000 tied head_dim=128
gemma-3-1b           gemma3   1152  26   4   1  6912 262144 tied head_dim=256
gemma-3-4b           gemma3   2560  34   8   4 10240 262208 tied head_dim=256
gemma-3-12b          gemma3   3840  48  16   8 15360 262208 tied head_dim=256
gemma-3-27b          gemma3   5376  62  32  16 21504 262208 tied head_dim=128
opt-125m             opt       768  12  12  12  3072  50272 tied
opt-2.7b             opt      2560  32  32  32 10240  50272 tied
opt-13b              opt      5120  40  40  40 20480  50272 tied
opt-30b              opt      7168  48  56  56 28672  50272 tied
opt-66b              opt      9216  64  72  72 36864  50272 tied
opt-175b             opt     12288  96  96  96 49152  50272 tied
bloom-1b1            bloom    1536  24  16  16  6144 250880 tied
bloom-1b7            bloom    2048  24  16  16  8192 250880 tied
bloom-3b             bloom    2560  30  32  32 10240 250880 tied
bloom-176b           bloom   14336  70 112 112 57344 250880 tied
gpt2-medium          gpt2     1024  24  16  16  4096  50257 tied
gpt2-large           gpt2     1280  36  20  20  5120  50257 tied
gpt-j-6b             gptj     4096  28  16  16 16384  50400
gpt-neo-1.3b         gpt_neo  2048  24  16  16  8192  50257 tied
gpt-neo-2.7b         gpt_neo  2560  32  20  20 10240  50257 tied
gpt-neox-20b         gpt_neox 6144  44  64  64 24576  50432
pythia-70m           gpt_neox  512   6   8   8  2048  50304
pythia-160m          gpt_neox  768  12  12  12  3072  50304
pythia-410m          gpt_neox 1024  24  16  16  4096  50304
pythia-1b            gpt_neox 2048  16   8   8  8192  50304
pythia-2.8b          gpt_neox 2560  32  32  32 10240  50304
pythia-6.9b          gpt_neox 4096  32  32  32 16384  50432
pythia-12b           gpt_neox 5120  36  40  40 20480  50688
dolly-v2-3b          gpt_neox 2560  32  32  32 10240  50280
dolly-v2-7b          gpt_neox 4096  32  32  32 16384  50280
dolly-v2-12b         gpt_neox 5120  36  40  40 20480  50280
redpajama-3b         gpt_neox 2560  32  32  32 10240  50432
redpajama-7b         gpt_neox 4096  32  32  32 16384  50432
falcon-7b            falcon   4544  32  71   1 18176  65024
falcon-40b           falcon   8192  60 128   8 32768  65024
falcon-180b          falcon  14848  80 232   8 59392  65024
chatglm-6b           chatglm  4096  28  32  32 16384 130528 tied
chatglm2-6b          chatglm  4096  28  32   2 13696  65024
chatglm3-6b          chatglm  4096  28  32   2 13696  65024
glm-4-9b             chatglm  4096  40  32   2 13696 151552
starcoder            gpt_bigcode 6144 40 48   1 24576  49152
starcoder-1b         gpt_bigcode 2048 24 16   1  8192  49152
starcoder-3b         gpt_bigcode 2816 36 22   1 11264  49152
starcoder-7b         gpt_bigcode 4096 42 32   1 16384  49152
starcoder2-3b        starcoder2 3072 30  24   2 12288  49152 tied
starcoder2-7b        starcoder2 4608 32  36   4 18432  49152 tied
starcoder2-15b       starcoder2 6144 40  48   4 24576  49152 tied
codegen-2b           codegen  2560  32  32  32 10240  51200
codegen-6b           codegen  4096  33  16  16 16384  51200
codegen-16b          codegen  6144  34  24  24 24576  51200
mpt-7b               mpt      4096  32  32  32 16384  50432 tied
mpt-30b              mpt      7168  48  64  64 28672  50432 tied
phi-1.5              phi      2048  24  32  32  8192  51200
phi-3-mini           phi3     3072  32  32  32  8192  32064
phi-3-small          phi3     4096  32  32   8 14336 100352
phi-3-medium         phi3     5120  40  40  10 17920  32064
phi-4                phi3     5120  40  40  10 17920 100352
phi-4-mini           phi3     3072  32  24   8  8192 200064 tied
stablelm-3b          stablelm 2560  32  32  32  6912  50304
stablelm-2-1.6b      stablelm 2048  24  32  32  5632 100352
stablelm-2-12b       stablelm 5120  40  32   8 13824 100352
command-r            cohere   8192  40  64  64 22528 256000 tied
command-r-plus       cohere  12288  64  96   8 33792 256000 tied
aya-8b               cohere   4096  32  32   8 14336 256000 tied
olmo-1b              olmo     2048  16  16  16  8192  50304 tied
olmo-7b              olmo     4096  32  32  32 11008  50304
olmo-2-7b            olmo2    4096  32  32  32 11008 100352
olmo-2-13b           olmo2    5120  40  40  40 13824 100352
granite-3-2b         granite  2048  40  32   8  8192  49155 tied
granite-3-8b         granite  4096  40  32   8 12800  49155 tied
minicpm-2b           minicpm  2304  40  36  36  5760 122753 tied
"""
"""Name, model_type, hidden, layers, heads, kv heads, feed-forward (of one expert), vocabulary, and what is unusual."""

ALIASES = """
llama-33b = llama-30b            llama1-7b = llama-7b              alpaca-7b = llama-7b
guanaco-7b = llama-7b            guanaco-13b = llama-13b           guanaco-33b = llama-30b
guanaco-65b = llama-65b          wizardlm-7b = llama-7b            wizardlm-13b = llama-13b
open-llama-7b = llama-7b         open-llama-13b = llama-13b        vicuna-33b = llama-30b
llama-2 = llama-2-7b             llama-3 = llama-3-8b              llama-3.1 = llama-3.1-8b
llama-3.2 = llama-3.2-3b         llama-3.3 = llama-3.3-70b         llama-guard-3-8b = llama-3.1-8b
codellama = codellama-7b         code-llama-7b = codellama-7b      code-llama-13b = codellama-13b
code-llama-34b = codellama-34b   tinyllama = tinyllama-1.1b        chinese-alpaca-2-7b = chinese-llama-2-7b
chinese-alpaca-2-13b = chinese-llama-2-13b
deepseek-r1-distill-qwen-1.5b = qwen2.5-1.5b  deepseek-r1-distill-qwen-7b = qwen2.5-7b
deepseek-r1-distill-qwen-14b = qwen2.5-14b    deepseek-r1-distill-qwen-32b = qwen2.5-32b
deepseek-r1-distill-llama-8b = llama-3.1-8b   deepseek-r1-distill-llama-70b = llama-3.3-70b
deepseek-r1-1.5b = qwen2.5-1.5b  deepseek-r1-7b = qwen2.5-7b       deepseek-r1-8b = llama-3.1-8b
deepseek-r1-14b = qwen2.5-14b    deepseek-r1-32b = qwen2.5-32b     deepseek-r1-70b = llama-3.3-70b
qwq-32b = qwen2.5-32b            qwen2.5 = qwen2.5-7b              qwen2 = qwen2-7b
qwen2-vl-7b = qwen2-7b           qwen2-vl-72b = qwen2-72b          qwen3 = qwen3-8b
yi-1.5-6b = yi-6b                yi-1.5-9b = yi-9b                 yi-1.5-34b = yi-34b
internlm2.5-1.8b = internlm2-1.8b internlm2.5-7b = internlm2-7b    internlm2.5-20b = internlm2-20b
mistral = mistral-7b             zephyr-7b = mistral-7b            openchat-7b = mistral-7b
mathstral-7b = mistral-7b-v0.3   mistral-nemo-12b = mistral-nemo   mistral-small = mistral-small-24b
mistral-large-123b = mistral-large codestral = codestral-22b       mixtral = mixtral-8x7b
bloom = bloom-176b               bloomz = bloom-176b               bloomz-560m = bloom-560m
bloomz-1b1 = bloom-1b1           bloomz-1b7 = bloom-1b7            bloomz-3b = bloom-3b
bloomz-7b1 = bloom-7b1           bloomz-176b = bloom-176b          gpt-j = gpt-j-6b
gptj-6b = gpt-j-6b               gptj = gpt-j-6b                   gpt-neox = gpt-neox-20b
gpt2-124m = gpt2                 gpt2-1.5b = gpt2-xl               llava-7b = vicuna-7b
llava-13b = vicuna-13b           llava-1.5-7b = vicuna-7b          llava-1.5-13b = vicuna-13b
llava-v1.6-mistral-7b = mistral-7b starcoderbase = starcoder        starcoderbase-1b = starcoder-1b
starcoderbase-3b = starcoder-3b  starcoderbase-7b = starcoder-7b   starcoder-15b = starcoder
starcoder-15.5b = starcoder      phi-2-2.7b = phi-2                phi-3-mini-3.8b = phi-3-mini
phi-3 = phi-3-mini               phi-3-medium-14b = phi-3-medium   phi-3.5-mini = phi-3-mini
phi-4-14b = phi-4                phi-1-5 = phi-1.5                 smollm-135m = smollm2-135m
smollm-360m = smollm2-360m       smollm-1.7b = smollm2-1.7b        smollm2 = smollm2-1.7b
gemma-2 = gemma-2-9b             command-r-35b = command-r         command-r-plus-104b = command-r-plus
aya-23-8b = aya-8b               aya-expanse-8b = aya-8b           chatglm-2-6b = chatglm2-6b
falcon = falcon-7b               granite-3.0-2b = granite-3-2b     granite-3.0-8b = granite-3-8b
granite-3.1-2b = granite-3-2b    granite-3.1-8b = granite-3-8b     granite-3.2-8b = granite-3-8b
granite-3.3-8b = granite-3-8b    granite-3.3-2b = granite-3-2b     chatglm3 = chatglm3-6b
chatglm2 = chatglm2-6b           vicuna = vicuna-7b                stablelm-zephyr-3b = stablelm-3b
"""
"""Other names for the same sizes. A name without a size stands for what it is by default where such names are used."""

OTHERS = (
    *("qwen2-audio", "qwen2.5-omni", "llama-3.2-vision", "llama-4", "deepseek-v2", "deepseek-v3", "gemma-3n"),
    *("phi-3.5-moe", "phi-3-vision", "bert", "roberta", "t5", "flan-t5", "whisper", "mamba", "stable-diffusion"),
)
"""Families that a shorter name would be mistaken for, and whose sizes are not listed here."""
