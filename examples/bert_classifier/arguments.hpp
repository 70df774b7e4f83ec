// Options from elsewhere than the command line.
#pragma once

#include <nlohmann/json.hpp>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// What is wrong with how the program was called.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The object that a text is; `what` names the text in messages. Error UsageError.
nlohmann::json json_object(std::string_view text, const std::string& what);
// The same of a file. Errors UsageError, file.read.
nlohmann::json read_json_object(const std::string& path, std::string_view what);

// Options in a JSON object as they would stand on the command line: {"epochs": 3, "decay-all":
// true} is --epochs 3 --decay-all. _ may stand for -. Values may be texts that hold numbers, as
// hosting services write them. Error UsageError.
std::vector<std::string> options_of_json(const nlohmann::json& object, std::string_view source,
                                         const std::vector<std::string>& flags);

// "--config FILE" behind a command replaced by the options that the file holds, in front of the
// others, which win. Errors UsageError, and file.read.
std::vector<std::string> with_config(std::vector<std::string> arguments,
                                     const std::vector<std::string>& flags);

// The one of the names that looks most like a text.
std::string nearest_name(std::string_view text, const std::vector<std::string>& names);
