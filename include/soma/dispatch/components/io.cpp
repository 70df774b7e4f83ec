// The compiled half of soma::io.

#include <soma/io/impl/checkpoint_files.ipp>
#include <soma/io/impl/checkpoint_folder.ipp>
#include <soma/io/impl/checkpoint_part_folder.ipp>
#include <soma/io/impl/checksums.ipp>
#include <soma/io/impl/executable_files.ipp>
#include <soma/io/impl/json_lines.ipp>
#include <soma/io/impl/json_text.ipp>
#include <soma/io/impl/microscaled.ipp>
#include <soma/io/impl/precision_json.ipp>
#include <soma/io/impl/record_json.ipp>
#include <soma/io/impl/safetensors.ipp>
#include <soma/io/impl/safetensors_header.ipp>
#include <soma/io/impl/state_hash.ipp>
#include <soma/io/impl/trace.ipp>
