// The compiled half of soma::text.

#include <soma/text/impl/added_tokens.ipp>
#include <soma/text/impl/byte_source.ipp>
#include <soma/text/impl/counted_features.ipp>
#include <soma/text/impl/distinct_hashes.ipp>
#include <soma/text/impl/json_row.ipp>
#include <soma/text/impl/labelled_text.ipp>
#include <soma/text/impl/record_reader.ipp>
#include <soma/text/impl/row_reader.ipp>
#include <soma/text/impl/special_tokens.ipp>
#include <soma/text/impl/stream_source.ipp>
#include <soma/text/impl/text_lines.ipp>
#include <soma/text/impl/tokenizer.ipp>
#include <soma/text/impl/tokenizer_classes.ipp>
#include <soma/text/impl/tokenizer_json.ipp>
#include <soma/text/impl/tokenizer_settings.ipp>
#include <soma/text/impl/tokenizer_stages.ipp>
#include <soma/text/impl/train_vocabulary.ipp>
#include <soma/text/impl/unicode.ipp>
#include <soma/text/impl/word_splitter.ipp>
#include <soma/text/impl/xmc_reader.ipp>
#include <soma/text/rows/impl/label_cells.ipp>
#include <soma/text/rows/impl/label_counter.ipp>
#include <soma/text/tables/impl/read_table.ipp>
#include <soma/text/tables/impl/row_groups.ipp>
#include <soma/text/tables/impl/table_encoder.ipp>
