#pragma once
// The functions of decoder/files.hpp.

#include <soma/models/decoder/files.hpp>

#include <soma/base/contains.hpp>
#include <soma/base/error.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/atomic_folder.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/models/decoder/config_json.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/state.hpp>
#include <soma/system/mapped_pages.hpp>
#include <soma/text/byte_pairs/byte_tokenizer_json.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models::detail {

inline constexpr std::string_view head_name = "lm_head.weight";

SOMA_INLINE bool is_turned(DecoderKind kind, std::string_view name) {
  constexpr std::string_view matrices[] = {".attn.c_attn.weight", ".attn.c_proj.weight",
                                           ".mlp.c_fc.weight", ".mlp.c_proj.weight"};
  return kind == DecoderKind::gpt2 &&
         std::any_of(std::begin(matrices), std::end(matrices),
                     [&](std::string_view matrix) { return name.ends_with(matrix); });
}

SOMA_INLINE std::string decoder_name(std::string name, DecoderKind kind) {
  const bool gpt2 = kind == DecoderKind::gpt2;
  const std::string_view prefix = gpt2 ? "transformer." : "model.";
  constexpr std::string_view of_gpt2[] = {"wte.", "wpe.", "h.", "ln_f."};
  constexpr std::string_view of_llama[] = {"embed_tokens.", "layers.", "norm."};
  const std::span<const std::string_view> parts = gpt2
                                                      ? std::span<const std::string_view>(of_gpt2)
                                                      : std::span<const std::string_view>(of_llama);
  for (const std::string_view part : parts)
    if (name.starts_with(part)) return name.insert(0, prefix);
  return name;
}

SOMA_INLINE bool is_decoder_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".self_attn.rotary_emb.inv_freq");
}

SOMA_INLINE void check_claimed_sizes(std::string_view operation, std::string_view folder,
                                     const DecoderConfig& config,
                                     const std::vector<SafetensorsFile>& files) {
  const nn::DecoderOptions& layer = config.layer;
  const std::uint64_t width = layer.width;
  const std::uint64_t heads = std::uint64_t{layer.heads + layer.groups()} * layer.head_size();
  const std::uint64_t products = 2 * heads + (layer.gated ? 3 : 2) * std::uint64_t{layer.inner};
  const std::uint64_t tables = std::uint64_t{config.vocabulary} * (config.tied ? 1 : 2) +
                               (config.learned_positions ? std::uint64_t{config.positions} : 0);
  const std::uint64_t wanted = width * (tables + config.layers * products);
  std::uint64_t bytes = 0;
  for (const SafetensorsFile& file : files) {
    for (const auto& [name, tensor] : file.tensors) bytes += tensor.bytes();
    for (const SkippedTensor& tensor : file.skipped) bytes += tensor.bytes;
  }
  if (wanted > bytes)
    fail(error_id::config_value, operation, "config.json of " + soma::quoted(folder),
         "a model of more than " + std::to_string(wanted) + " parameters (" +
             std::to_string(config.layers) + " layers, width " + std::to_string(width) + ")",
         "at most one for each of the " + std::to_string(bytes) + " bytes of the weights");
}

// Writes [in, out] to [out, in], in the type of `to`.
inline void turn_tensor(Context& context, const Tensor& from, const Tensor& to) {
  Tensor same = from;
  if (from.dtype() != to.dtype()) {
    same = Tensor::empty(context, from.shape(), to.dtype());
    convert_tensor(context, from, same);
  }
  copy(same.transpose(0, 1), to);
  // A tensor of a mapped file: its pages are read again if it is asked for again.
  if (!from.storage().writable())
    system::release_pages(static_cast<const std::byte*>(from.raw()), from.bytes());
}

// Fills a parameter [out, in] from a stored matrix that is seen turned.
inline void fill_turned(Context& context, const Tensor& from, const Tensor& to) {
  turn_tensor(context, from.transpose(0, 1), to);
}

// Checks that a head that a tied model's file repeats is the table.
inline void check_repeated_head(std::string_view operation, const std::string& source,
                                const Tensor& head, const Tensor* table) {
  const bool same = table != nullptr && head.dtype() == table->dtype() &&
                    head.shape() == table->shape() &&
                    std::memcmp(head.raw(), table->raw(), head.bytes()) == 0;
  if (!same)
    fail(error_id::config_value, operation, "tie_word_embeddings of " + soma::quoted(source),
         "true, with a lm_head.weight that differs from the table of tokens",
         "false, or a file without lm_head.weight");
}

SOMA_INLINE LoadedDecoder load_decoder_files(Context& context, const Decoder& decoder,
                                             const std::string& source,
                                             const std::vector<SafetensorsFile>& files,
                                             nn::InitialStore* later) {
  constexpr std::string_view operation = "load_decoder";
  const DecoderKind kind = decoder.config.kind;
  const Parameters parameters = nn::parameters(decoder);
  std::map<std::string_view, const Parameter*> target;  // as their names ascend
  for (const Parameter& parameter : parameters) target.emplace(parameter.name, &parameter);
  LoadedDecoder result;
  StateDict given;
  const Tensor* repeated_head = nullptr;
  // True if a parameter takes the tensor of that name in a file.
  const auto wanted = [&](const std::string& name) {
    const std::string known = decoder_name(name, kind);
    if (target.contains(known)) return true;
    if (!is_decoder_buffer(name) && name != head_name)
      fail(error_id::extra_name, operation, "name",
           soma::quoted(name) + " in " + soma::quoted(source),
           "a name of the model, " + near_parameters(context, parameters, known));
    result.passed_over.push_back(name);
    return false;
  };
  for (const SafetensorsFile& file : files) {
    for (const auto& [name, tensor] : file.tensors) {
      if (wanted(name))
        given.set(decoder_name(name, kind), tensor);
      else if (name == head_name)
        repeated_head = &tensor;
    }
    for (const SkippedTensor& tensor : file.skipped)
      if (wanted(tensor.name)) {
        check_no_doubles(operation, source, tensor);
        file.at(tensor.name);  // the error
      }
  }
  for (const auto& [name, parameter] : target) {
    const Tensor* from = given.find(name);
    if (from == nullptr)
      fail(error_id::missing_name, operation, "name",
           soma::quoted(name) + ", which " + soma::quoted(source) + " lacks",
           given.near_names(parameter->name));
    const Tensor to = parameter->value();
    const std::string argument = soma::quoted(name) + " in " + soma::quoted(source);
    const Shape& shape = to.shape();
    const Shape stored = is_turned(kind, name) ? Shape{shape[1], shape[0]} : shape;
    if (from->shape() != stored)
      fail(error_id::state_shape, operation, argument, from->describe(),
           Tensor::outline_of(stored, to.dtype()).describe());
    if (!is_floating(from->dtype()))
      fail(error_id::state_dtype, operation, argument, from->describe(), "floating-point numbers");
    if (to.defined() ? !to.storage().writable() : later == nullptr)
      fail(error_id::tensor_read_only, operation, soma::quoted(name), to.describe(),
           "a writable tensor");
  }
  const std::string_view table =
      kind == DecoderKind::gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight";
  if (repeated_head != nullptr)
    check_repeated_head(operation, source, *repeated_head, given.find(table));
  result.weights = given.at(table).dtype();
  for (const auto& [name, from] : given) {
    const Parameter& parameter = *target.at(name);
    const bool turned = is_turned(kind, name);
    const Tensor given_rows = turned ? from.transpose(0, 1) : from;
    const auto fill = turned ? &fill_turned : &convert_tensor;
    if (const Tensor to = parameter.value(); to.defined())
      fill(context, given_rows, to);
    else
      later->replace(parameter, given_rows, fill);
  }
  return result;
}

SOMA_INLINE DecoderTensors::DecoderTensors(Context& context, DecoderKind kind,
                                           TensorSource& weights, DType type)
    : context_(context), kind_(kind), weights_(weights) {
  for (const auto& [name, tensor] : weights.entries()) {
    const Shape& shape = tensor.shape();
    entries_.emplace_back(
        name, Tensor::outline_of(is_turned(kind, name) ? Shape{shape[1], shape[0]} : shape, type));
  }
}

SOMA_INLINE Tensor DecoderTensors::fetch(std::size_t i) {
  const auto& [name, outline] = entries_[i];
  const Tensor own = contiguous(context_, weights_.fetch(i));
  if (!is_turned(kind_, name) && own.dtype() == outline.dtype()) return own;
  const Tensor made = Tensor::empty(context_, outline.shape(), outline.dtype());
  (is_turned(kind_, name) ? turn_tensor : convert_tensor)(context_, own, made);
  return made;
}

// Some neighbouring tensors of a source.
class TensorRun final : public TensorSource {
 public:
  TensorRun(TensorSource& all, std::size_t first, std::size_t end)
      : all_(all), first_(first), count_(end - first) {}
  std::span<const StateDict::Entry> entries() const override {
    return all_.entries().subspan(first_, count_);
  }
  Tensor fetch(std::size_t i) override { return all_.fetch(first_ + i); }

 private:
  TensorSource& all_;
  std::size_t first_, count_;
};

// "model-00002-of-00003.safetensors", or model.safetensors of a single file.
inline std::string shard_name(std::size_t i, std::size_t count) {
  if (count == 1) return "model.safetensors";
  const auto five = [](std::size_t number) {
    const std::string digits = std::to_string(number);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return "model-" + five(i + 1) + "-of-" + five(count) + ".safetensors";
}

inline void save_shards(const AtomicFolder& folder, std::string_view operation,
                        TensorSource& tensors, std::size_t shard_bytes) {
  const std::span<const StateDict::Entry> entries = tensors.entries();
  std::vector<std::size_t> ends;
  std::size_t held = 0, total = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::size_t bytes = entries[i].second.bytes();
    if (shard_bytes != 0 && held != 0 && bytes > shard_bytes - (std::min)(shard_bytes, held)) {
      ends.push_back(i);
      held = 0;
    }
    held += bytes;
    total += bytes;
  }
  ends.push_back(entries.size());
  const SafetensorsMetadata mark{{"format", "pt"}};  // other readers require it
  nlohmann::json index = {{"metadata", {{"total_size", total}}},
                          {"weight_map", nlohmann::json::object()}};
  std::size_t first = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::string name = shard_name(i, ends.size());
    TensorRun run(tensors, first, ends[i]);
    save_safetensors(folder / name, run, mark);
    for (; first < ends[i]; ++first) index["weight_map"][entries[first].first] = name;
  }
  if (ends.size() == 1) return;
  AtomicFile file(operation, folder / "model.safetensors.index.json");
  file.write(index.dump(2) + "\n");
  file.commit();
}

inline bool is_decoder_file(std::string_view name) {
  return name == "config.json" || name == "generation_config.json" ||
         name == "chat_template.jinja" || name == "model.safetensors.index.json" ||
         contains(text::byte_tokenizer_files, name) ||
         (name.starts_with("model") && name.ends_with(".safetensors"));
}

}  // namespace SOMA_NAMESPACE::models::detail

namespace SOMA_NAMESPACE::models {

SOMA_INLINE LoadedDecoder load_decoder(Context& context, const Decoder& decoder,
                                       std::string_view path, nn::InitialStore* later) {
  const std::string source(path);
  return detail::load_decoder_files(
      context, decoder, source,
      detail::model_files(context, "load_decoder", source, "AutoModelForCausalLM"), later);
}

SOMA_INLINE void check_decoder_folder(std::string_view operation, std::string_view path) {
  detail::check_replaced_names(operation, path, AtomicFolder(operation, path),
                               &detail::is_decoder_file);
}

SOMA_INLINE void save_decoder(std::string_view path, Context& context, const Decoder& decoder,
                              const DecoderConfigFile& file, const SaveDecoderOptions& options) {
  constexpr std::string_view operation = "save_decoder";
  if (options.weights != DType::fp32 && options.weights != DType::bf16 &&
      options.weights != DType::fp16)
    fail(error_id::config_value, operation, "weights", to_string(options.weights),
         "fp32, bf16 or fp16");
  for (const auto& [name, content] : options.files)
    if (!detail::plain_name(name) || !detail::is_decoder_file(name) || name == "config.json" ||
        name.starts_with("model"))
      fail(error_id::model_file_name, operation, "files", soma::quoted(name),
           "a file of a tokenizer, or generation_config.json");
  const Parameters parameters = nn::parameters(decoder);
  StateDict own;
  if (options.source == nullptr) own = nn::state_dict(parameters);
  StateSource own_source(own);
  TensorSource& weights = options.source != nullptr ? *options.source : own_source;
  if (options.source != nullptr) detail::check_weights(operation, parameters, weights.entries());

  AtomicFolder folder(operation, path);
  detail::check_replaced_names(operation, path, folder, &detail::is_decoder_file);
  const auto write = [&](std::string_view name, std::string_view content) {
    AtomicFile whole(operation, folder / name);
    whole.write(content);
    whole.commit();
  };
  DecoderConfigFile now = file;
  now.config = decoder.config;
  write("config.json", to_json(now, options.weights));
  for (const auto& [name, content] : options.files) write(name, content);
  detail::DecoderTensors tensors(context, decoder.config.kind, weights, options.weights);
  detail::save_shards(folder, operation, tensors, options.shard_bytes);
  folder.commit();
}

}  // namespace SOMA_NAMESPACE::models
