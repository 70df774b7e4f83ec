#pragma once
// Every error id of the library. An id never changes its meaning and is never reused;
// docs/errors.md explains each id.

#include <soma/base/config.hpp>

#include <string_view>

namespace SOMA_NAMESPACE {

// A stable name such as "convert.size_mismatch": programs compare it and users search for it.
struct ErrorId {
  std::string_view name;
  friend constexpr bool operator==(ErrorId, ErrorId) = default;
};

namespace error_id {

inline constexpr ErrorId size_overflow{"base.size_overflow"};
inline constexpr ErrorId out_of_memory{"memory.exhausted"};

inline constexpr ErrorId unknown_format{"format.unknown_name"};
inline constexpr ErrorId impossible_format{"format.impossible"};
inline constexpr ErrorId random_bits{"rounding.random_bits"};
inline constexpr ErrorId environment_value{"rounding.environment"};
inline constexpr ErrorId index_range{"random.index_range"};
inline constexpr ErrorId probability{"random.probability"};

inline constexpr ErrorId size_mismatch{"convert.size_mismatch"};
inline constexpr ErrorId forbidden_overlap{"convert.overlap"};
inline constexpr ErrorId bad_layout{"convert.layout"};
inline constexpr ErrorId bad_scaling{"scaling.invalid"};
inline constexpr ErrorId scale_count{"scaling.count"};

inline constexpr ErrorId executor_width{"executor.width"};
inline constexpr ErrorId unknown_target{"context.unknown_target"};
inline constexpr ErrorId context_outlived{"context.outlived"};
inline constexpr ErrorId no_sparse{"context.no_sparse"};
inline constexpr ErrorId math_needs_fma{"context.portable_needs_fma"};
inline constexpr ErrorId thread_start{"executor.thread_start"};
inline constexpr ErrorId stopped{"runtime.stopped"};

inline constexpr ErrorId unknown_dtype{"tensor.unknown_dtype"};
inline constexpr ErrorId tensor_undefined{"tensor.undefined"};
inline constexpr ErrorId tensor_rank{"tensor.rank"};
inline constexpr ErrorId tensor_size{"tensor.size"};
inline constexpr ErrorId tensor_shape{"tensor.shape"};
inline constexpr ErrorId tensor_dtype{"tensor.dtype"};
inline constexpr ErrorId tensor_index{"tensor.index"};
inline constexpr ErrorId tensor_broadcast{"tensor.broadcast"};
inline constexpr ErrorId tensor_not_contiguous{"tensor.not_contiguous"};
inline constexpr ErrorId tensor_read_only{"tensor.read_only"};
inline constexpr ErrorId tensor_foreign{"tensor.foreign_context"};
inline constexpr ErrorId ragged_ordinals{"ragged.ordinals"};
inline constexpr ErrorId ragged_shards{"ragged.shards"};
inline constexpr ErrorId ragged_padding{"ragged.padding"};
inline constexpr ErrorId ragged_empty_sequence{"ragged.empty_sequence"};

inline constexpr ErrorId no_parameters{"nn.no_parameters"};
inline constexpr ErrorId duplicate_name{"state.duplicate_name"};
inline constexpr ErrorId missing_name{"state.missing_name"};
inline constexpr ErrorId extra_name{"state.extra_name"};
inline constexpr ErrorId state_shape{"state.shape"};
inline constexpr ErrorId state_dtype{"state.dtype"};
inline constexpr ErrorId record_missing{"record.missing"};
inline constexpr ErrorId record_type{"record.type"};
inline constexpr ErrorId record_text{"record.text"};
inline constexpr ErrorId record_json{"record.json"};
inline constexpr ErrorId checkpoint_identity{"checkpoint.identity"};
inline constexpr ErrorId checkpoint_step{"checkpoint.step"};
inline constexpr ErrorId checkpoint_damaged{"checkpoint.damaged"};
inline constexpr ErrorId checkpoint_locked{"checkpoint.locked"};
inline constexpr ErrorId checkpoint_operator{"checkpoint.operator"};
inline constexpr ErrorId checkpoint_parts{"checkpoint.parts"};

inline constexpr ErrorId file_read{"file.read"};
inline constexpr ErrorId file_write{"file.write"};
inline constexpr ErrorId npy_header{"npy.header"};
inline constexpr ErrorId npy_dtype{"npy.dtype"};
inline constexpr ErrorId npy_size{"npy.size"};
inline constexpr ErrorId npy_value{"npy.value"};
inline constexpr ErrorId safetensors_header{"safetensors.header"};
inline constexpr ErrorId safetensors_dtype{"safetensors.dtype"};
inline constexpr ErrorId safetensors_size{"safetensors.size"};
inline constexpr ErrorId safetensors_value{"safetensors.value"};
inline constexpr ErrorId safetensors_name{"safetensors.name"};
inline constexpr ErrorId csv_size{"csv.size"};
inline constexpr ErrorId image_format{"image.format"};
inline constexpr ErrorId image_size{"image.size"};
inline constexpr ErrorId image_damaged{"image.damaged"};
inline constexpr ErrorId image_folder{"image.folder"};

inline constexpr ErrorId operator_attributes{"operator.attributes"};
inline constexpr ErrorId operator_inputs{"operator.inputs"};
inline constexpr ErrorId operator_sequences{"operator.sequences"};
inline constexpr ErrorId operator_value{"operator.value"};
inline constexpr ErrorId operator_incomplete{"operator.incomplete"};
inline constexpr ErrorId operator_duplicate{"operator.duplicate_name"};
inline constexpr ErrorId operator_unknown{"operator.unknown"};
inline constexpr ErrorId operator_name{"operator.name"};
inline constexpr ErrorId operator_outputs{"operator.outputs"};

inline constexpr ErrorId plugin_path{"plugin.path"};
inline constexpr ErrorId plugin_file{"plugin.file"};
inline constexpr ErrorId plugin_library{"plugin.library"};
inline constexpr ErrorId plugin_symbol{"plugin.symbol"};
inline constexpr ErrorId plugin_version{"plugin.version"};
inline constexpr ErrorId plugin_malformed{"plugin.malformed"};
inline constexpr ErrorId plugin_failed{"plugin.failed"};

inline constexpr ErrorId neuroncore_rule_broken{"neuroncore.rule_broken"};
inline constexpr ErrorId neuroncore_undefined{"neuroncore.undefined"};
inline constexpr ErrorId neuroncore_undisclosed{"neuroncore.undisclosed"};
inline constexpr ErrorId neuroncore_not_implemented{"neuroncore.not_implemented"};
inline constexpr ErrorId neuroncore_generation{"neuroncore.generation"};
inline constexpr ErrorId neuroncore_rule{"neuroncore.rule"};
inline constexpr ErrorId neuroncore_race{"neuroncore.race"};
inline constexpr ErrorId neuroncore_record{"neuroncore.record"};
inline constexpr ErrorId neuroncore_machine{"neuroncore.machine"};
inline constexpr ErrorId neuroncore_dry_run{"neuroncore.dry_run"};
inline constexpr ErrorId executable_missing{"executable.missing"};
inline constexpr ErrorId executable_corrupt{"executable.corrupt"};
inline constexpr ErrorId executable_version{"executable.version"};
inline constexpr ErrorId executable_machine{"executable.machine"};
inline constexpr ErrorId executable_operator{"executable.operator"};
inline constexpr ErrorId executable_stream{"executable.stream"};
inline constexpr ErrorId neuroncore_not_run{"neuroncore.not_run"};
inline constexpr ErrorId neuroncore_not_finite{"neuroncore.not_finite"};
inline constexpr ErrorId neuroncore_run_options{"neuroncore.run_options"};
inline constexpr ErrorId neuroncore_instance{"neuroncore.instance"};

inline constexpr ErrorId foreign_tape{"autograd.foreign_tape"};
inline constexpr ErrorId freed{"autograd.freed"};
inline constexpr ErrorId not_scalar{"autograd.not_scalar"};
inline constexpr ErrorId no_gradient{"autograd.no_gradient"};
inline constexpr ErrorId not_differentiable{"autograd.not_differentiable"};
inline constexpr ErrorId changed_in_place{"autograd.changed_in_place"};
inline constexpr ErrorId not_finite{"autograd.not_finite"};
inline constexpr ErrorId not_leaf{"autograd.not_leaf"};
inline constexpr ErrorId tape_threads{"autograd.two_threads"};
inline constexpr ErrorId tape_options{"autograd.options"};

inline constexpr ErrorId text_vocabulary{"text.vocabulary"};
inline constexpr ErrorId text_special_token{"text.special_token"};
inline constexpr ErrorId text_token_id{"text.token_id"};
inline constexpr ErrorId text_max_length{"text.max_length"};
inline constexpr ErrorId text_tokenizer_file{"text.tokenizer_file"};
inline constexpr ErrorId text_training{"text.training"};
inline constexpr ErrorId text_features{"text.features"};

inline constexpr ErrorId sequence_length{"models.sequence_length"};
inline constexpr ErrorId config_json{"models.config_json"};
inline constexpr ErrorId config_type{"models.config_type"};
inline constexpr ErrorId config_value{"models.config_value"};
inline constexpr ErrorId shard_index{"models.shard_index"};
inline constexpr ErrorId model_file_name{"models.file_name"};
inline constexpr ErrorId weights_file{"models.weights_file"};
inline constexpr ErrorId model_not_finite{"models.not_finite"};
inline constexpr ErrorId encoder_module{"models.encoder_module"};
inline constexpr ErrorId predictor{"models.predictor"};
inline constexpr ErrorId generator{"models.generator"};

inline constexpr ErrorId train_options{"train.options"};
inline constexpr ErrorId train_precision{"train.precision"};
inline constexpr ErrorId train_label{"train.label"};
inline constexpr ErrorId train_steps_unknown{"train.steps_unknown"};
inline constexpr ErrorId train_not_finite{"train.not_finite"};

inline constexpr ErrorId data_batch_size{"data.batch_size"};
inline constexpr ErrorId data_buckets{"data.buckets"};
inline constexpr ErrorId data_offsets{"data.offsets"};
inline constexpr ErrorId data_labels{"data.labels"};
inline constexpr ErrorId data_feature{"data.feature"};
inline constexpr ErrorId data_field{"data.field"};
inline constexpr ErrorId data_empty{"data.empty"};
inline constexpr ErrorId data_position{"data.position"};
inline constexpr ErrorId data_too_long{"data.too_long"};
inline constexpr ErrorId data_split{"data.split"};

inline constexpr ErrorId text_file_format{"text.file_format"};
inline constexpr ErrorId text_file_gzip{"text.file_gzip"};
inline constexpr ErrorId text_file_changed{"text.file_changed"};
inline constexpr ErrorId text_file_empty{"text.file_empty"};
inline constexpr ErrorId text_folder{"text.folder"};
inline constexpr ErrorId text_column{"text.column"};
inline constexpr ErrorId text_header{"text.header"};
inline constexpr ErrorId text_row_columns{"text.row_columns"};
inline constexpr ErrorId text_row_quote{"text.row_quote"};
inline constexpr ErrorId text_row_encoding{"text.row_encoding"};
inline constexpr ErrorId text_row_too_long{"text.row_too_long"};
inline constexpr ErrorId text_row_empty{"text.row_empty"};
inline constexpr ErrorId text_row_label{"text.row_label"};
inline constexpr ErrorId text_row_json{"text.row_json"};
inline constexpr ErrorId text_label_unseen{"text.label_unseen"};
inline constexpr ErrorId text_label_count{"text.label_count"};
inline constexpr ErrorId text_label_alike{"text.label_alike"};
inline constexpr ErrorId text_label_separator{"text.label_separator"};
inline constexpr ErrorId text_xmc_header{"text.xmc_header"};
inline constexpr ErrorId text_xmc_row{"text.xmc_row"};
inline constexpr ErrorId text_one_class{"text.one_class"};
inline constexpr ErrorId text_split{"text.split"};

inline constexpr ErrorId table_column{"table.column"};
inline constexpr ErrorId table_cell{"table.cell"};
inline constexpr ErrorId table_categories{"table.categories"};
inline constexpr ErrorId table_size{"table.size"};
inline constexpr ErrorId table_rows{"table.rows"};
inline constexpr ErrorId table_json{"table.json"};

inline constexpr ErrorId parallel_argument{"parallel.argument"};
inline constexpr ErrorId parallel_ranks{"parallel.ranks"};
inline constexpr ErrorId parallel_plan{"parallel.plan"};
inline constexpr ErrorId parallel_gradient{"parallel.gradient"};
inline constexpr ErrorId parallel_timeout{"parallel.timeout"};
inline constexpr ErrorId rank_lost{"parallel.rank_lost"};
inline constexpr ErrorId message_size{"parallel.message_size"};
inline constexpr ErrorId parallel_mismatch{"parallel.mismatch"};
inline constexpr ErrorId parallel_transport{"parallel.transport"};

inline constexpr ErrorId xtensor_layout{"xtensor.layout"};

}  // namespace error_id
}  // namespace SOMA_NAMESPACE
