#pragma once
// Files: .npy, safetensors, MXFP4, checkpoints, logs of JSON lines, hashes of states. Needs
// nlohmann-json and xxHash (soma::io in CMake); soma/io/npy.hpp alone needs neither.

#include <soma/io/checkpoint_folder.hpp>
#include <soma/io/checkpoint_part_folder.hpp>
#include <soma/io/confusion_csv.hpp>
#include <soma/io/json_lines.hpp>
#include <soma/io/microscaled.hpp>
#include <soma/io/npy.hpp>
#include <soma/io/precision_json.hpp>
#include <soma/io/record_json.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/io/state_hash.hpp>
