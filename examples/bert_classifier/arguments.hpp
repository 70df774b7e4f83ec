// Options that do not come from the command line.
#pragma once

#include <nlohmann/json.hpp>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// The program was called with wrong arguments.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Parses a JSON object; messages call the text `what`. Error UsageError.
nlohmann::json json_object(std::string_view text, const std::string& what);
// Reads a file that holds a JSON object. Errors UsageError, file.read.
nlohmann::json read_json_object(const std::string& path, std::string_view what);

// Turns a JSON object into command-line options: {"epochs": 3, "decay-all": true} becomes --epochs
// 3 --decay-all. _ may stand for -. A string may hold a number, because hosting services write
// every value as a string. Error UsageError.
std::vector<std::string> options_of_json(const nlohmann::json& object, std::string_view source,
                                         const std::vector<std::string>& flags);

// Replaces "--config FILE" behind a command by the options in the file. The file's options come
// first, so that options of the command line win. Errors UsageError, and file.read.
std::vector<std::string> with_config(std::vector<std::string> arguments,
                                     const std::vector<std::string>& flags);

// Returns the name that is most similar to the text.
std::string nearest_name(std::string_view text, const std::vector<std::string>& names);
