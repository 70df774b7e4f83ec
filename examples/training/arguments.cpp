#include "training/arguments.hpp"

#include <soma/base/json_limits.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/state/state_dict.hpp>

#include <algorithm>

nlohmann::json json_object(std::string_view text, const std::string& what) {
  nlohmann::json root;
  if (soma::may_be_tree(text)) root = nlohmann::json::parse(text, nullptr, false);
  if (!root.is_object())
    throw UsageError(what + " holds no JSON object, wanted one such as {\"name\": value}");
  return root;
}

nlohmann::json read_json_object(const std::string& path, std::string_view what) {
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
    std::vector<std::string> more =
        options_of_json(read_json_object(path, "--config"), "--config", flags);
    // evaluate takes several of them: with that of the command line, that of the file would count.
    const auto is_data = [](const std::string& option) {
      return option == "--data" || option.starts_with("--data=");
    };
    if (std::ranges::any_of(arguments, is_data)) std::erase_if(more, is_data);
    arguments.insert(arguments.begin() + 1, more.begin(), more.end());
    break;
  }
  return arguments;
}

std::string nearest_name(std::string_view text, const std::vector<std::string>& names) {
  std::string nearest;
  std::size_t least = text.size();
  for (const std::string& name : names)
    if (const std::size_t distance = soma::edit_distance(text, name); distance < least) {
      least = distance;
      nearest = name;
    }
  return nearest;
}
