#include "bert_classifier/arguments.hpp"

#include <soma/base/json_limits.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/state/state_dict.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A channel is a folder: the one file in it, or the folder itself where it has several.
std::string channel_data(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.is_regular_file() && entry.path().filename().string().front() != '.')
      files.push_back(entry.path().string());
  return files.size() == 1 ? files.front() : folder;
}

}  // namespace

nlohmann::json json_object(std::string_view text, const std::string& what) {
  nlohmann::json root;
  if (soma::detail::may_be_tree(text)) root = nlohmann::json::parse(text, nullptr, false);
  if (!root.is_object())
    throw UsageError(what + " holds no JSON object, wanted one such as {\"name\": value}");
  return root;
}

nlohmann::json json_object_of_file(const std::string& path, std::string_view what) {
  const auto file = soma::MappedFile::open(what, path);
  const auto bytes = file->bytes();
  return json_object({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                     std::string(what) + ": \"" + path + "\"");
}

std::vector<std::string> options_of_json(const nlohmann::json& object, std::string_view source,
                                         const std::vector<std::string>& flags) {
  std::vector<std::string> result;
  for (const auto& [key, value] : object.items()) {
    std::string name = "--" + key;
    std::replace(name.begin(), name.end(), '_', '-');
    if (name == "--config" || name == "--help")
      throw UsageError(std::string(source) + " gives \"" + key +
                       "\", which belongs on the command line");
    const bool is_flag = std::find(flags.begin(), flags.end(), name) != flags.end();
    std::string text;
    if (value.is_string())
      text = value.get<std::string>();
    else if (value.is_number() || value.is_boolean())
      text = value.dump();
    else
      throw UsageError(std::string(source) + " gives \"" + key +
                       "\" no text, number, true or false");
    if (!is_flag && text.empty())
      throw UsageError(std::string(source) + " gives \"" + key + "\" an empty value");
    if (!is_flag) {
      result.push_back(name + "=" + text);
    } else if (text == "true" || text == "True" || text == "1") {
      result.push_back(name);
    } else if (text != "false" && text != "False" && text != "0") {
      throw UsageError(std::string(source) + " gives \"" + key + "\" the value " + text +
                       ", wanted true or false");
    }
  }
  return result;
}

std::vector<std::string> with_config(std::vector<std::string> arguments,
                                     const std::vector<std::string>& flags) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    std::string path;
    std::size_t used = 1;
    if (arguments[i].starts_with("--config=")) {
      path = arguments[i].substr(9);
    } else if (arguments[i] == "--config") {
      if (i + 1 == arguments.size()) throw UsageError("--config lacks its file");
      path = arguments[i + 1];
      used = 2;
    } else {
      continue;
    }
    if (path.empty()) throw UsageError("--config lacks its file");
    const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    arguments.erase(at, at + static_cast<std::ptrdiff_t>(used));
    for (const std::string& other : arguments)
      if (other == "--config" || other.starts_with("--config="))
        throw UsageError("--config is there twice, wanted one file");
    const std::vector<std::string> more =
        options_of_json(json_object_of_file(path, "--config"), "--config", flags);
    arguments.insert(arguments.begin() + 1, more.begin(), more.end());
    break;
  }
  return arguments;
}

bool is_training_job() { return !environment("SM_CHANNEL_TRAIN").empty(); }

std::string failure_file_of_job() {
  const std::string output = environment("SM_OUTPUT_DATA_DIR");
  if (output.empty()) return "/opt/ml/output/failure";
  // Whether or not a / ends it.
  return (std::filesystem::path(output) / "").parent_path().parent_path() / "failure";
}

std::vector<std::string> arguments_of_job(const std::vector<std::string>& flags) {
  const std::string output = environment("SM_OUTPUT_DATA_DIR");
  std::vector<std::string> arguments = {"train",
                                        "--data=" + channel_data(environment("SM_CHANNEL_TRAIN"))};
  for (const char* name : {"SM_CHANNEL_TEST", "SM_CHANNEL_VALIDATION"})
    if (const std::string folder = environment(name); !folder.empty()) {
      arguments.push_back("--dev=" + channel_data(folder));
      break;
    }
  if (const std::string folder = environment("SM_MODEL_DIR"); !folder.empty())
    arguments.push_back("--output=" + folder);
  if (!output.empty()) arguments.push_back("--log-json=" + output + "/log.jsonl");

  constexpr const char* standard = "/opt/ml/input/config/hyperparameters.json";
  const std::string given = environment("SM_HPS");
  nlohmann::json hyperparameters = nlohmann::json::object();
  if (!given.empty()) {
    hyperparameters = json_object(given, "SM_HPS");
  } else if (std::filesystem::exists(standard)) {
    hyperparameters = json_object_of_file(standard, "hyperparameters");
  }
  for (std::string& option : options_of_json(hyperparameters, "hyperparameters", flags))
    arguments.push_back(std::move(option));
  return arguments;
}

std::string nearest_name(std::string_view text, const std::vector<std::string>& names) {
  std::string nearest;
  std::size_t least = text.size();
  for (const std::string& name : names)
    if (const std::size_t distance = soma::detail::edit_distance(text, name); distance < least) {
      least = distance;
      nearest = name;
    }
  return nearest;
}
