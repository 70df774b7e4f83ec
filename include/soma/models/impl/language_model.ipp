#pragma once
// The functions of language_model.hpp.

#include <soma/models/language_model.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/base/error.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/metrics/next_token.hpp>
#include <soma/models/model_files.hpp>
#include <soma/nn/class_weights.hpp>
#include <soma/nn/freeze.hpp>
#include <soma/nn/later.hpp>
#include <soma/nn/product_site.hpp>
#include <soma/ops/choose/settings.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/text/byte_pairs/byte_tokenizer_json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models::detail {

// The files of a folder that belong to its texts, and are saved as they are.
inline NamedFiles text_files(const std::string& folder) {
  NamedFiles files;
  const auto read = [&](std::string_view name) {
    const std::string path = folder + "/" + std::string(name);
    if (is_file(path))
      files.emplace_back(name, text_of(*MappedFile::open("LanguageModel::from_pretrained", path)));
  };
  for (const std::string_view name : text::byte_tokenizer_files) read(name);
  for (const std::string_view name : {"generation_config.json", "chat_template.jinja"}) read(name);
  return files;
}

// Chat templates are programs of another language: they are not applied.
inline bool has_chat_template(const NamedFiles& files) {
  for (const auto& [name, content] : files)
    if (name == "chat_template.jinja" ||
        (name == "tokenizer_config.json" && content.find("\"chat_template\"") != content.npos))
      return true;
  return false;
}

inline void refuse_adapter(const std::string& folder) {
  if (is_file(folder + "/adapter_config.json") && !is_file(folder + "/config.json"))
    fail(error_id::weights_file, "LanguageModel::from_pretrained", "folder",
         soma::quoted(folder) + ", which holds \"adapter_config.json\" and no config.json",
         "the folder of a whole model, to which load_adapter() adds this one");
}

inline bool begins_with(std::span<const std::int32_t> ids, std::span<const std::int32_t> with) {
  return ids.size() >= with.size() && std::equal(with.begin(), with.end(), ids.begin());
}

}  // namespace SOMA_NAMESPACE::models::detail

namespace SOMA_NAMESPACE::models {

SOMA_INLINE std::size_t usual_length(const DecoderConfig& config, std::size_t length) {
  constexpr std::size_t usual = 1024;
  if (length != 0) return length;
  const std::size_t most = config.most_rows();
  return (std::min)({usual, config.positions, most == 0 ? usual : most});
}

SOMA_INLINE LanguageModel::LanguageModel(Context& context, text::ByteTokenizer tokenizer,
                                         const DecoderConfigFile& file,
                                         const LanguageModelOptions& options, NamedFiles files)
    : context_(context),
      tokenizer_(std::move(tokenizer)),
      file_(file),
      files_(std::move(files)),
      windows_{usual_length(file.config, options.length), options.overlap},
      trained_(options.trained),
      end_id_(tokenizer_.end_id()),
      seed_(options.seed),
      later_(options.later),
      model_(nn::Scope{context, options.seed, "", options.later},
             checked(file.config, options, tokenizer_.id_count())),
      parameters_(nn::parameters(model_)) {
  data::windows_of({}, windows_);  // checks the options
  if (end_id_ < 0 && !file.end_ids.empty()) end_id_ = file.end_ids.front();
  if (end_id_ >= 0 && static_cast<std::size_t>(end_id_) >= config().vocabulary)
    fail(error_id::config_value, "LanguageModel", "eos_token_id", std::to_string(end_id_),
         "a row of the table of tokens, below " + std::to_string(config().vocabulary));
  for (std::size_t id = 0; id < tokenizer_.id_count(); ++id) {
    const auto token = static_cast<std::int32_t>(id);
    token_bytes_.push_back(tokenizer_.is_special(token)
                               ? 0
                               : static_cast<std::uint32_t>(tokenizer_.bytes_of(token).size()));
  }
  token_bytes_.resize(config().vocabulary);
}

SOMA_INLINE LanguageModel::LanguageModel(Context& context, std::string_view folder,
                                         text::ByteTokenizer tokenizer,
                                         const DecoderConfigFile& file,
                                         const std::vector<SafetensorsFile>& weights,
                                         const LanguageModelOptions& options, NamedFiles files,
                                         const nn::Later* from_files)
    : LanguageModel(context, std::move(tokenizer), file, options, std::move(files)) {
  file_type_ =
      detail::load_decoder_files(context, model_, std::string(folder), weights, options.later)
          .weights;
  source_ = folder;
  if (from_files != nullptr) {
    if (options.weights != DType::fp32)
      for (const Parameter& parameter : parameters_)
        if (parameter.var.shape().rank() == 2) parameter.var.drop_value(options.weights);
    if (options.in_place)
      from_files->make_in_place(context, parameters_);
    else
      from_files->make(context, parameters_);
    later_ = nullptr;
  }
  if (!options.adapter.empty()) load_adapter(options.adapter);
  if (options.lora) adapt(*options.lora);
}

SOMA_INLINE LanguageModel LanguageModel::from_pretrained(Context& context, std::string_view folder,
                                                         const LanguageModelOptions& options) {
  const std::string path(folder);
  detail::refuse_adapter(path);
  const DecoderConfigFile file = load_decoder_config(folder);
  text::ByteTokenizer tokenizer = text::ByteTokenizer::from_files(folder);
  const std::vector<SafetensorsFile> weights =
      detail::model_files(context, "load_decoder", path, "AutoModelForCausalLM");
  detail::check_claimed_sizes("load_decoder", folder, file.config, weights);
  NamedFiles files = detail::text_files(path);
  if (detail::has_chat_template(files))
    context.log(LogLevel::info, "LanguageModel: the chat template of " + soma::quoted(path) +
                                    " is not applied: rows are taken as they are written");
  // No initial values are drawn, because the files have all parameters.
  nn::Later from_files;
  LanguageModelOptions known = options;
  if (known.later == nullptr) known.later = &from_files;
  return LanguageModel(context, folder, std::move(tokenizer), file, weights, known,
                       std::move(files), options.later == nullptr ? &from_files : nullptr);
}

SOMA_INLINE std::vector<std::int32_t> LanguageModel::end_ids() const {
  std::vector<std::int32_t> ids = file_.end_ids;
  if (tokenizer_.end_id() >= 0) ids.push_back(tokenizer_.end_id());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

SOMA_INLINE void LanguageModel::adapt(const nn::LoraOptions& options) {
  nn::adapt(model_, {context_, seed_, "", later_}, options);
  nn::freeze(parameters_);
  parameters_ = nn::parameters(model_);
  adapter_ = {.lora = options, .base = source_, .turned = config().kind == DecoderKind::gpt2};
}

SOMA_INLINE void LanguageModel::load_adapter(const std::string& folder) {
  AdapterConfig loaded =
      models::load_adapter(context_, model_, {context_, seed_, "", later_}, folder);
  nn::freeze(parameters_);
  parameters_ = nn::parameters(model_);
  loaded.turned = config().kind == DecoderKind::gpt2;
  if (loaded.base.empty()) loaded.base = source_;
  adapter_ = std::move(loaded);
}

SOMA_INLINE bool LanguageModel::adapted() const { return adapter_.has_value(); }

SOMA_INLINE void LanguageModel::save_adapter(std::string_view folder, TensorSource* source) const {
  models::save_adapter(folder, parameters_, adapter_.value_or(AdapterConfig{}), source);
}

SOMA_INLINE double LanguageModel::merge(std::optional<DType> type) {
  const double difference = nn::merge(context_, nn::products(model_), type.value_or(file_type_));
  adapter_.reset();
  parameters_ = nn::parameters(model_);
  nn::unfreeze(parameters_);
  return difference;
}

SOMA_INLINE void LanguageModel::save(std::string_view folder,
                                     const SaveLanguageModelOptions& options) const {
  if (adapted())
    fail(error_id::operator_value, "LanguageModel::save", "model", "one with adapters",
         "save_adapter(), or merge() first");
  const bool usual =
      file_type_ == DType::fp32 || file_type_ == DType::bf16 || file_type_ == DType::fp16;
  save_decoder(folder, context_, model_, file_,
               {.weights = options.weights.value_or(usual ? file_type_ : DType::fp32),
                .shard_bytes = options.shard_bytes,
                .files = files_,
                .source = options.source});
}

SOMA_INLINE DecoderConfig LanguageModel::checked(DecoderConfig config,
                                                 const LanguageModelOptions& options,
                                                 std::size_t ids) {
  constexpr std::string_view operation = "LanguageModel";
  if (config.vocabulary < ids)
    fail(error_id::config_value, operation, "vocab_size", std::to_string(config.vocabulary),
         "at least the tokenizer's ids, " + std::to_string(ids));
  const std::size_t most = config.most_rows();
  if (most != 0 && options.length > most)
    fail(error_id::config_value, operation, "length", std::to_string(options.length),
         "at most " + std::to_string(most) +
             (config.learned_positions ? ", the model's positions" : ", its sliding window"));
  config.recompute = options.recompute;
  if (options.dropout >= 0)
    config.layer.dropout = config.layer.attention_dropout = config.embedding_dropout =
        options.dropout;
  return config;
}

SOMA_INLINE std::vector<std::int32_t> LanguageModel::document(std::string_view text) const {
  return document_of({.text = text}).ids;
}

SOMA_INLINE std::vector<std::int32_t> LanguageModel::prompt(std::string_view text) const {
  const text::Encoding own = tokenizer_.encode(text, {.special_tokens = false});
  if (own.replaced != 0)
    context_.log(LogLevel::warning, "LanguageModel: " + std::to_string(own.replaced) +
                                        " invalid UTF-8 sequences of a prompt were read as U+FFFD");
  const std::span<const std::int32_t> before = tokenizer_.before();
  std::vector<std::int32_t> ids;
  if (before.empty() || !detail::begins_with(own.ids, before))
    ids.assign(before.begin(), before.end());
  ids.insert(ids.end(), own.ids.begin(), own.ids.end());
  return ids;
}

SOMA_INLINE auto LanguageModel::document_of(const Written& row) const -> Document {
  Document document;
  const std::string joined =
      row.has_answer ? std::string(row.text).append(row.answer) : std::string();
  text::Encoding own = tokenizer_.encode(row.has_answer ? std::string_view(joined) : row.text,
                                         {.special_tokens = false, .offsets = row.has_answer});
  document.replaced = own.replaced;
  const std::span<const std::int32_t> before = tokenizer_.before(), after = tokenizer_.after();
  document.doubled_start = !before.empty() && detail::begins_with(own.ids, before);
  if (!document.doubled_start) document.ids.assign(before.begin(), before.end());
  const std::size_t ahead = document.ids.size();
  document.ids.insert(document.ids.end(), own.ids.begin(), own.ids.end());
  if (after.empty() || own.ids.size() < after.size() ||
      !std::equal(after.begin(), after.end(),
                  own.ids.end() - static_cast<std::ptrdiff_t>(after.size())))
    document.ids.insert(document.ids.end(), after.begin(), after.end());
  if (end_id_ >= 0 && (document.ids.empty() || document.ids.back() != end_id_))
    document.ids.push_back(end_id_);
  if (!row.has_answer) return document;
  // A token across the border belongs to the answer.
  const auto first = std::find_if(own.offsets.begin(), own.offsets.end(),
                                  [&](const text::Span& at) { return at.end > row.text.size(); });
  document.without_answer = first == own.offsets.end();
  if (trained_ == TrainedTokens::answers)
    document.first_target =
        (std::max)(std::size_t{1}, ahead + static_cast<std::size_t>(first - own.offsets.begin()));
  return document;
}

SOMA_INLINE std::unique_ptr<data::DocumentSource> LanguageModel::source_of(
    std::span<const Written> rows, const data::BatchOptions& options, const StopFlag* stop) const {
  constexpr std::string_view operation = "LanguageModel::batches";
  std::vector<Document> found(rows.size());
  const std::size_t parts = static_cast<std::size_t>(context_.executor().width) * 8;
  parallel(context_, static_cast<int>(parts), [&](int index) {
    const auto part = static_cast<std::size_t>(index);
    const std::size_t first = rows.size() * part / parts, end = rows.size() * (part + 1) / parts;
    for (std::size_t i = first; i < end && !(stop != nullptr && stop->requested()); ++i)
      found[i] = document_of(rows[i]);
  });
  check_stop(stop, operation);
  data::DocumentLists documents;
  std::size_t doubled = 0, replaced = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].without_answer)
      fail(error_id::data_labels, operation, "answer of row " + std::to_string(i),
           "without a token", "a text");
    documents.add(found[i].ids, found[i].first_target);
    doubled += found[i].doubled_start ? 1u : 0u;
    replaced += found[i].replaced;
    found[i] = {};
  }
  const auto say = [&](std::size_t count, std::string_view what) {
    if (count != 0)
      context_.log(LogLevel::warning,
                   std::string(operation) + ": " + std::to_string(count) + std::string(what));
  };
  auto source =
      std::make_unique<data::DocumentSource>(context_, std::move(documents), windows_, options);
  say(doubled, " rows spell out the token that begins a text: it is there once");
  say(replaced, " invalid UTF-8 sequences were read as U+FFFD");
  say(source->left_out(), " rows have no token to learn, and are left out");
  if (end_id_ < 0)
    context_.log(LogLevel::warning,
                 std::string(operation) + ": the files name no eos token: none ends the rows");
  return source;
}

SOMA_INLINE Tensor LanguageModel::targets_of(const data::Batch& batch) const {
  const Tensor& targets = batch.at(data::targets_field);
  const Sequences& sequences = batch.inputs.sequences;
  if (targets.dtype() != DType::int32 || targets.shape() != Shape{sequences.rows()})
    fail(error_id::data_field, "LanguageModel", "targets", targets.describe(),
         "int32, one for each of " + std::to_string(sequences.rows()) + " rows");
  if (sequences.used_rows() == sequences.rows()) return contiguous(context_, targets);
  const Tensor used = Tensor::full(context_, targets.shape(), data::no_target);
  for (std::size_t i = 0; i < sequences.count(); ++i) {
    const std::size_t begin = sequences.begin(i), end = begin + sequences.used(i);
    copy(targets.slice(0, begin, end), used.slice(0, begin, end));
  }
  return used;
}

SOMA_INLINE auto LanguageModel::forward(Tape& tape, const data::Batch& batch) -> Forward {
  return finish(tape, model_(tape, tape.constant(batch.inputs)), batch);
}

SOMA_INLINE nn::Pieces LanguageModel::pieces() const { return model_.pieces(); }

SOMA_INLINE auto LanguageModel::finish(Tape& tape, const Var& hidden, const data::Batch& batch)
    -> Forward {
  const Tensor targets = targets_of(batch);
  if (!tape.options().training && !tape.recording()) return evaluate(tape, hidden, targets, batch);
  return {loss(tape, hidden, targets, batch), {}};
}

SOMA_INLINE Var LanguageModel::loss(Tape& tape, const Var& hidden, const Tensor& targets,
                                    const data::Batch& batch) const {
  CrossEntropySetting setting = nn::loss_of(batch);
  // The mean of no losses would be NaN.
  if (data::count_targets(targets) == 0) setting.reduction = LossReduction::sum;
  return nn::head_loss_at(model_.head_site, tape, hidden, model_.head_weight(),
                          tape.constant(targets, batch.inputs.sequences), setting);
}

SOMA_INLINE auto LanguageModel::evaluate(Tape& tape, const Var& hidden, const Tensor& targets,
                                         const data::Batch& batch) const -> Forward {
  // 64 MiB of logits at a time. A row has the same logits whatever rows are beside it.
  const std::size_t rows = targets.elements(),
                    block =
                        (std::max)(std::size_t{16}, (std::size_t{1} << 24) / config().vocabulary);
  const std::span<const std::int32_t> wanted = targets.span<std::int32_t>();
  std::vector<float> losses(rows);
  std::vector<bool> hits(rows);
  for (std::size_t begin = 0; begin < rows; begin += block) {
    const std::size_t end = (std::min)(rows, begin + block);
    const Var scores = model_.logits(
        tape, tape.constant(contiguous(context_, hidden.value().slice(0, begin, end))));
    const Var each = cross_entropy(tape, scores, tape.constant(targets.slice(0, begin, end)),
                                   {.reduction = LossReduction::none});
    const Tensor best = run(context_, *context_.built_in().top_k,
                            TopKSetting{.dimension = 1, .k = 1}, {scores.value()})[1];
    for (std::size_t row = begin; row < end; ++row) {
      losses[row] = each.value().data<float>()[row - begin];
      hits[row] = best.data<std::int64_t>()[row - begin] == wanted[row];
    }
  }
  const Sequences& sequences = batch.inputs.sequences;
  const Tensor scores =
      Tensor::empty(context_, Shape{sequences.count(), metrics::NextToken::scores});
  const std::span<float> to = scores.mutable_span<float>();
  double total = 0;
  for (std::size_t i = 0; i < sequences.count(); ++i) {
    double own = 0;
    std::size_t hit = 0;
    for (std::size_t row = sequences.begin(i); row < sequences.end(i); ++row) {
      if (wanted[row] == data::no_target) continue;
      own += static_cast<double>(losses[row]);
      hit += hits[row] ? 1u : 0u;
    }
    total += own;
    metrics::NextToken::put(
        own, hit, to.subspan(i * metrics::NextToken::scores).first<metrics::NextToken::scores>());
  }
  const std::size_t count = data::count_targets(targets);
  if (!batch.part && count != 0) total /= static_cast<double>(count);
  const float result[] = {static_cast<float>(total)};
  return {tape.constant(Tensor::from(context_, std::span<const float>(result), Shape{})), scores};
}

SOMA_INLINE Tensor LanguageModel::labels_of(const data::Batch& batch) const {
  const Tensor targets = targets_of(batch);
  const std::span<const std::int32_t> all = targets.span<std::int32_t>();
  const Sequences& sequences = batch.inputs.sequences;
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < sequences.count(); ++i) {
    std::int64_t tokens = 0, bytes = 0;
    for (std::size_t row = sequences.begin(i); row < sequences.end(i); ++row) {
      const std::int32_t target = all[row];
      if (target < 0 || static_cast<std::size_t>(target) >= token_bytes_.size()) continue;
      ++tokens;
      bytes += token_bytes_[static_cast<std::size_t>(target)];
    }
    counts.insert(counts.end(), {tokens, bytes});
  }
  return Tensor::from(context_, std::span<const std::int64_t>(counts), Shape{sequences.count(), 2});
}

SOMA_INLINE Owned<metrics::Metrics> LanguageModel::metrics() const {
  return Owned<metrics::Metrics>::make<metrics::NextToken>();
}

SOMA_INLINE double LanguageModel::loss_count(const data::Batch& batch) const {
  return static_cast<double>(data::count_targets(targets_of(batch)));
}

SOMA_INLINE double LanguageModel::useful_flops(const data::Batch& batch) const {
  return training_flops(config(), batch.inputs.sequences);
}

SOMA_INLINE bool LanguageModel::set_recompute(bool wanted) {
  model_.config.recompute = wanted;
  return true;
}

SOMA_INLINE void LanguageModel::describe(Record& identity) const {
  model_.describe(identity);
  if (adapted()) nn::describe(identity, adapter_->lora);
}

}  // namespace SOMA_NAMESPACE::models
