// The compiled half of soma::models.

#include <soma/models/decoder/impl/config_json.ipp>
#include <soma/models/decoder/impl/files.ipp>
#include <soma/models/decoder/impl/generation_config.ipp>
#include <soma/models/decoder/impl/generator.ipp>
#include <soma/models/decoder/impl/sampling.ipp>
#include <soma/models/decoder/impl/shown_text.ipp>
#include <soma/models/impl/adapter_files.ipp>
#include <soma/models/impl/answering.ipp>
#include <soma/models/impl/bert_config_json.ipp>
#include <soma/models/impl/config_reader.ipp>
#include <soma/models/impl/extreme_files.ipp>
#include <soma/models/impl/extreme_text.ipp>
#include <soma/models/impl/fast_bag.ipp>
#include <soma/models/impl/fast_classifier.ipp>
#include <soma/models/impl/fast_linear.ipp>
#include <soma/models/impl/fast_linear_files.ipp>
#include <soma/models/impl/fast_options.ipp>
#include <soma/models/impl/fast_stream.ipp>
#include <soma/models/impl/input_form.ipp>
#include <soma/models/impl/language_model.ipp>
#include <soma/models/impl/model_files.ipp>
#include <soma/models/impl/predictor.ipp>
#include <soma/models/impl/pretrained.ipp>
#include <soma/models/impl/text_classifier.ipp>
#include <soma/models/impl/text_encoder.ipp>
#include <soma/models/impl/tokenized_pairs.ipp>
