#pragma once
// Text: BERT's tokenizer, its vocabulary and its files. Needs utf8proc and nlohmann-json
// (soma::text in CMake); soma/text/tokenizer.hpp and train_vocabulary.hpp need no JSON.

#include <soma/text/tokenizer.hpp>
#include <soma/text/tokenizer_json.hpp>
#include <soma/text/train_vocabulary.hpp>
#include <soma/text/vocabulary.hpp>
