#pragma once
// A decoder's weights in files of the usual hubs and libraries: reads and writes a folder with
// config.json and model.safetensors, or several files and an index.

#include <soma/models/decoder/config_json.hpp>
#include <soma/models/decoder/decoder.hpp>
#include <soma/models/model_files.hpp>
#include <soma/nn/initial.hpp>
#include <soma/state/tensor_source.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

// Names and contents of files beside the weights.
using NamedFiles = std::vector<std::pair<std::string, std::string>>;

struct LoadedDecoder {
  DType weights = DType::fp32;             // the type of the files' table of tokens
  std::vector<std::string> passed_over{};  // tensors of the files that are no parameters
};

// Reads the weights of a model. `path` is a .safetensors file, or a folder. Names may lack the
// prefix "transformer." or "model."; formats of 16 and 8 bits are converted. Matrices of a GPT-2,
// which its files store [in, out], are turned. A file of a tied model may repeat the table of
// tokens as lm_head.weight. Nothing is written before all is checked. `later`: makes postponed
// parameters (nn::Scope::later) from the files, which stay mapped. Errors file.read, safetensors.*,
// models.shard_index, models.weights_file; state.missing_name, state.extra_name, state.shape,
// state.dtype; tensor.read_only; models.config_value: a head that differs from the table it is tied
// to, or sizes in config.json that the files are too small for.
LoadedDecoder load_decoder(Context& context, const Decoder& decoder, std::string_view path,
                           nn::InitialStore* later = nullptr);

struct SaveDecoderOptions {
  DType weights = DType::fp32;  // fp32, bf16 or fp16, rounded to nearest
  std::size_t shard_bytes = 0;  // the most bytes of tensors in a file; 0: any
  NamedFiles files{};           // such as the tokenizer's
  // The weights under the parameters' names, if other ranks hold some of them. nullptr: the
  // decoder's own.
  TensorSource* source = nullptr;
};

// Writes the folder `path` in the form that other libraries read; a tied head is stored once. An
// earlier model of that name is replaced, but stays until the new one is complete; a folder with
// other files than a model's is refused. Errors file.write, models.file_name, models.config_value
// (a type that such files do not have), state.missing_name.
void save_decoder(std::string_view path, Context& context, const Decoder& decoder,
                  const DecoderConfigFile& file, const SaveDecoderOptions& options = {});

// Checks that a model can be saved there, before a training is paid for. Error file.write.
void check_decoder_folder(std::string_view operation, std::string_view path);

namespace detail {

// True for a matrix that GPT-2's files store [in, out]. The shape of a square one would not tell.
bool is_turned(DecoderKind kind, std::string_view name);

// The parameter's name of a tensor in a file.
std::string decoder_name(std::string name, DecoderKind kind);

// True for tensors of old files that are no parameters: masks, and tables of rotary angles.
bool is_decoder_buffer(std::string_view name);

// Compares the sizes in config.json with the files before memory is allocated. Error
// models.config_value.
void check_claimed_sizes(std::string_view operation, std::string_view folder,
                         const DecoderConfig& config, const std::vector<SafetensorsFile>& files);

LoadedDecoder load_decoder_files(Context& context, const Decoder& decoder,
                                 const std::string& source,
                                 const std::vector<SafetensorsFile>& files,
                                 nn::InitialStore* later);

// The tensors of a decoder's files, one at a time: turned, and in the type of the files.
class DecoderTensors final : public TensorSource {
 public:
  // `weights` has the parameters' names.
  DecoderTensors(Context& context, DecoderKind kind, TensorSource& weights, DType type);

  std::span<const StateDict::Entry> entries() const override { return entries_; }
  Tensor fetch(std::size_t i) override;

 private:
  Context& context_;
  DecoderKind kind_;
  TensorSource& weights_;
  std::vector<StateDict::Entry> entries_;
};

}  // namespace detail
}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/decoder/impl/files.ipp>
#endif
