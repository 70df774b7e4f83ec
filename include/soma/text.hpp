#pragma once
// Text: readers of labelled rows, BERT's tokenizer, its vocabulary and its files. Needs utf8proc,
// zlib and nlohmann-json (soma::text in CMake).

#include <soma/text/labelled_text.hpp>
#include <soma/text/stream_source.hpp>
#include <soma/text/text_lines.hpp>
#include <soma/text/tokenizer.hpp>
#include <soma/text/tokenizer_json.hpp>
#include <soma/text/train_vocabulary.hpp>
#include <soma/text/vocabulary.hpp>
