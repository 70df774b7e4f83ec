#pragma once
// Pretrained models: BERT's files, and TextClassifier, which is BERT with its tokenizer. Includes
// soma/text.hpp and soma/train.hpp. Needs the libraries of soma::io and soma::text (soma::models in
// CMake).

#include <soma/models/bert_config_json.hpp>
#include <soma/models/predictor.hpp>
#include <soma/models/pretrained.hpp>
#include <soma/models/text_classifier.hpp>
#include <soma/models/text_encoder.hpp>
#include <soma/text.hpp>
#include <soma/train.hpp>
#include <soma/train/console_progress.hpp>
