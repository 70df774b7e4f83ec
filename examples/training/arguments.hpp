// Options from a file or another text instead of the command line.
#pragma once

#include <nlohmann/json.hpp>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// A mistake in the way the program was called.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The JSON object in a text; `what` names the text in messages. Error UsageError.
nlohmann::json json_object(std::string_view text, const std::string& what);
// The JSON object in a file. Errors UsageError, file.read.
nlohmann::json read_json_object(const std::string& path, std::string_view what);

// The options in a JSON object in the form of a command line: {"epochs": 3, "decay-all": true} is
// --epochs 3 --decay-all. Names may have _ instead of -. Numbers may be texts, which is the form
// that hosting services use. Error UsageError.
std::vector<std::string> options_of_json(const nlohmann::json& object, std::string_view source,
                                         const std::vector<std::string>& flags);

// Replaces "--config FILE" after a command by the options in the file, before all other options,
// which win. Errors UsageError, and file.read.
std::vector<std::string> with_config(std::vector<std::string> arguments,
                                     const std::vector<std::string>& flags);

// The name that is most similar to a text.
std::string nearest_name(std::string_view text, const std::vector<std::string>& names);
