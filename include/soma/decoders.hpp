#pragma once
// Decoder-only language models: GPT-2 and small Llama-class folders, their tokenizers,
// LanguageModel, which trains them, and TextGenerator, which writes texts. Includes soma/soma.hpp
// and soma/train.hpp. Needs the libraries of soma::io and soma::text (soma::models in CMake).

#include <soma/metrics/next_token.hpp>
#include <soma/models/decoder/generator.hpp>
#include <soma/models/language_model.hpp>
#include <soma/soma.hpp>
#include <soma/text/byte_pairs/text_stream.hpp>
#include <soma/train.hpp>
#include <soma/train/console_progress.hpp>
