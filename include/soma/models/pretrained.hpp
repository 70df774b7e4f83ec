#pragma once
// BERT's weights in files of the usual hubs and libraries: reads and writes a folder with
// config.json and model.safetensors (or several files and an index).

#include <soma/autograd/parameter.hpp>
#include <soma/io/atomic_folder.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/kernels/convert/convert.hpp>
#include <soma/models/bert_config_json.hpp>
#include <soma/models/model_files.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/scope.hpp>
#include <soma/nn/state.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

struct LoadBertOptions {
  // The classifier keeps its initial values even if the file has one: for other labels, or if the
  // file's classifier belongs to another task.
  bool new_classifier = false;
  // For a classifier with postponed parameters (nn::Scope::later): this object makes them from the
  // files on demand. The files stay mapped, and nothing is read before.
  nn::InitialStore* later = nullptr;
};

// The differences between the files and the classifier.
struct LoadedBert {
  std::vector<std::string> fresh{};        // parameters missing in the file: keep initial values
  std::vector<std::string> passed_over{};  // tensors of the file that are not used
};

namespace detail {

// The files that saved models have.
inline constexpr std::array<std::string_view, 7> saved_names = {"config.json",
                                                                "model.safetensors",
                                                                "vocab.txt",
                                                                "tokenizer.json",
                                                                "tokenizer_config.json",
                                                                "labels.txt",
                                                                "label_counts.safetensors"};

// soma computes in fp32 and does not read numbers of 64 bits. Error safetensors.dtype.
void check_no_doubles(std::string_view operation, const std::string& source,
                      const SkippedTensor& tensor);

// The name in a BertClassifier of a tensor in a file: files of the bare model lack "bert." or
// "distilbert.", and old files have names of the first implementation.
std::string bert_name(std::string name, BertKind kind);

// True for a name of the classifier: a layer after the encoder and the pooler.
bool of_classifier(std::string_view name);

// True if a tensor of a file that no parameter uses may be ignored: counters that some versions
// wrote, and other heads. Another layer of the encoder may not be ignored.
bool may_be_left_out(std::string_view name, BertKind kind);

// True for parameters that pretraining does not make.
bool may_be_fresh(std::string_view name);

// True for the prefixes of both kinds of model: with the other kind's prefix, the config.json is
// the wrong one.
inline bool is_model_prefix(std::string_view prefix) {
  return prefix == "bert." || prefix == "distilbert.";
}

// For a message about a missing parameter: the same name with another prefix in the file, or some
// of the file's names.
std::string names_instead(const std::string& name, const StateDict& given,
                          const std::vector<std::string>& others);

// `from` is a tensor of a file. If the file is mapped, its pages are given back.
void convert_tensor(Context& context, const Tensor& from, const Tensor& to);

// The least number of elements in a file of such a model. Sizes are limited by config.json's
// checks, so 64 bits hold the number.
std::uint64_t least_parameters(const BertConfig& config);

// Compares the sizes in config.json with the files before memory is allocated: no element takes
// less than a byte. Error models.config_value.
void check_claimed_sizes(std::string_view operation, std::string_view folder,
                         const BertConfig& config, const std::vector<SafetensorsFile>& files);

// Similar parameter names of the model, for a message.
std::string near_parameters(Context& context, const Parameters& parameters, std::string_view name);

LoadedBert load_bert_files(Context& context, const BertClassifier& classifier,
                           const std::string& source, const std::vector<SafetensorsFile>& files,
                           const LoadBertOptions& options);

}  // namespace detail

// Reads the weights of a model into a classifier. `path` is a .safetensors file, or a folder with
// model.safetensors, or with several files and model.safetensors.index.json. Names may have the
// prefix "bert." ("distilbert." of a DistilBERT) or not; LayerNorm's may be gamma and beta. Formats
// of 16 and 8 bits are converted. A classifier or pooler that the file lacks keeps its initial
// values and is listed; tensors of other heads are listed too. Nothing is written before all is
// checked. Errors file.read, safetensors.*, models.shard_index, models.weights_file;
// state.missing_name, state.extra_name (an encoder with other parts), state.duplicate_name,
// state.shape, state.dtype, tensor.read_only.
LoadedBert load_bert(Context& context, const BertClassifier& classifier, std::string_view path,
                     const LoadBertOptions& options = {});

// Reads the config.json at `path`, or in the folder `path`. Errors file.read, and those of
// bert_config_from_json.
BertConfigFile load_bert_config(std::string_view path);

struct SaveBertOptions {
  std::vector<std::string> labels{};  // empty: LABEL_0, LABEL_1 ...
  std::uint64_t pad_token = 0;
  // Names and contents of further files, such as the tokenizer's.
  std::vector<std::pair<std::string, std::string>> files{};
  data::LabelKind kind = data::LabelKind::one;
  InputForm input{};
  // The weights under the classifier's names, if other ranks hold some of them as stages. nullptr:
  // the classifier's own weights.
  TensorSource* weights = nullptr;
};

namespace detail {

// Checks that these are the parameters, by their names. Error state.missing_name.
void check_weights(std::string_view operation, const Parameters& parameters,
                   std::span<const StateDict::Entry> weights);

// Every file that commit() would remove must be of an earlier model; only a folder that cannot be
// replaced as a whole keeps other files. Error file.write.
void check_replaced(std::string_view operation, std::string_view path, const AtomicFolder& folder,
                    const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace detail

// Checks that a model can be saved there, before a training is paid for. Errors file.write, as of
// save_bert.
void check_model_folder(std::string_view operation, std::string_view path);

// Writes the folder `path`: config.json, model.safetensors and `files`, in the form that other
// libraries read. An earlier model of that name is replaced, but stays until the new one is
// complete; a folder with other files than a model's is refused. Errors file.write,
// models.config_value (not one label for each logit), models.file_name; state.missing_name
// (options.weights are not the weights of this classifier).
void save_bert(std::string_view path, const BertClassifier& classifier,
               const SaveBertOptions& options = {});

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/pretrained.ipp>
#endif
