#include "training/launch/job.hpp"

#include "training/arguments.hpp"
#include "training/launch/channels.hpp"

#include <soma/base/json_limits.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string_view>

#include <unistd.h>

namespace {

namespace files = std::filesystem;
using Json = nlohmann::json;

const std::string root = "/opt/ml", settings_folder = root + "/input/config";
constexpr std::string_view channel_prefix = "SM_CHANNEL_";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}
bool is_folder(const std::string& path) {
  std::error_code problem;
  return files::is_directory(path, problem);
}
bool has_layout() { return is_folder(settings_folder); }

std::vector<Channel> channels_of_environment() {
  std::vector<Channel> channels;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t end = text.find('=');
    if (!text.starts_with(channel_prefix) || end == text.npos || end + 1 == text.size()) continue;
    std::string name(text.substr(channel_prefix.size(), end - channel_prefix.size()));
    for (char& letter : name)
      if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + 32);
    channels.push_back({name, std::string(text.substr(end + 1))});
  }
  std::ranges::sort(channels, {}, &Channel::name);
  return channels;
}

// One channel for each folder; the file of settings also lists channels without a folder.
std::vector<Channel> channels_of_layout() {
  const std::string data = root + "/input/data", list = settings_folder + "/inputdataconfig.json";
  std::vector<std::string> names;
  std::error_code problem;
  if (files::exists(list, problem)) {
    const Json described = read_json_object(list, "inputdataconfig.json");
    for (const auto& [name, value] : described.items()) names.push_back(name);
  }
  for (files::directory_iterator at(data, problem), end; !problem && at != end;
       at.increment(problem)) {
    const std::string name = at->path().filename().string();
    if (is_folder(at->path().string()) && std::ranges::find(names, name) == names.end())
      names.push_back(name);
  }
  std::ranges::sort(names);
  std::vector<Channel> channels;
  for (const std::string& name : names) {
    channels.push_back({name, files::path(data) / name});
    if (!is_folder(channels.back().folder))
      throw UsageError("the channel " + name + " has no folder " + channels.back().folder +
                       ", wanted files (input mode File or FastFile)");
  }
  return channels;
}

// ---- hyperparameters

bool is_of_service(std::string_view key) {
  return key.starts_with("sagemaker_") || key.starts_with("_tuning_");
}

// The service keeps every value as a text, in which its tools write JSON: "\"tiny\"", "1", "true".
// Numbers keep their written form. Returns false for null, which means that the value is missing.
bool take_out_of_text(Json& value) {
  if (!value.is_string()) return !value.is_null();
  const auto& text = value.get_ref<const std::string&>();
  if (!soma::may_be_tree(text)) return true;
  Json inner = Json::parse(text, nullptr, false);
  if (inner.is_discarded() || inner.is_number()) return true;
  value = std::move(inner);
  return !value.is_null();
}

Json hyperparameters() {
  const std::string file = settings_folder + "/hyperparameters.json";
  const std::string given = environment("SM_HPS");
  Json all = Json::object();
  std::error_code problem;
  if (!given.empty())
    all = json_object(given, "SM_HPS");
  else if (files::exists(file, problem))
    all = read_json_object(file, "hyperparameters");
  Json wanted = Json::object();
  std::string ignored;
  for (auto& [key, value] : all.items()) {
    if (is_of_service(key))
      ignored += (ignored.empty() ? "" : ", ") + key;
    else if (take_out_of_text(value))
      wanted[key] = value;
  }
  if (!ignored.empty()) std::cerr << "hyperparameters of the service, ignored: " << ignored << '\n';
  return wanted;
}

// ---- the command line

std::string option_name(std::string_view word) {
  std::string name(word.substr(0, word.find('=')));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}
bool names(const std::vector<std::string>& words, std::string_view option) {
  return std::ranges::any_of(words,
                             [&](const std::string& word) { return option_name(word) == option; });
}

// The toolkit's form: --batch_size 16 --quiet True.
std::vector<std::string> typed_options(const std::vector<std::string>& typed,
                                       const std::vector<std::string>& flags) {
  std::vector<std::string> words;
  for (std::size_t i = !typed.empty() && typed.front() == "train" ? 1 : 0; i < typed.size(); ++i) {
    const std::string& word = typed[i];
    const std::string name = option_name(word);
    if (!word.starts_with("--") || std::ranges::find(flags, name) == flags.end()) {
      words.push_back(word.starts_with("--") ? name + word.substr(name.size()) : word);
      continue;
    }
    std::string value = "true";
    if (word.size() > name.size())
      value = word.substr(name.size() + 1);
    else if (i + 1 < typed.size() && !typed[i + 1].starts_with("--"))
      value = typed[++i];
    for (std::string& option :
         options_of_json(Json{{name.substr(2), value}}, "the command line", flags))
      words.push_back(std::move(option));
  }
  return words;
}

// Empty if there is no place for logs.
std::string log_folder() {
  std::string folder = environment("SM_OUTPUT_DATA_DIR");
  if (folder.empty() && has_layout()) folder = root + "/output/data";
  if (folder.empty()) return {};
  std::error_code problem;
  files::create_directories(folder, problem);
  if (is_folder(folder) && ::access(folder.c_str(), W_OK) == 0) return folder;
  std::cerr << "no log: nothing can be written to " << folder << '\n';
  return {};
}

std::string model_folder() {
  const std::string folder = environment("SM_MODEL_DIR");
  return folder.empty() && has_layout() ? root + "/model" : folder;
}

}  // namespace

bool is_training_job(const std::vector<std::string>& typed) {
  const bool says_train = !typed.empty() && typed.front() == "train";
  const bool options_alone = typed.empty() || typed.front().starts_with("--");
  for (const char* other : {"--data", "--reviews", "--label-noise", "--help", "--version"})
    if (names(typed, other)) return false;
  if (names(typed, "-h") || !(says_train || options_alone)) return false;
  return has_layout() || !channels_of_environment().empty() ||
         !environment("SM_TRAINING_ENV").empty();
}

std::string failure_file_of_job() {
  const std::string output = environment("SM_OUTPUT_DATA_DIR");
  if (output.empty()) return root + "/output/failure";
  // The folder may end in /.
  return (files::path(output) / "").parent_path().parent_path() / "failure";
}

Job read_job(const std::vector<std::string>& typed, const std::vector<std::string>& flags) {
  std::vector<Channel> channels = channels_of_environment();
  if (channels.empty()) channels = channels_of_layout();
  const Json wanted = hyperparameters();
  std::vector<std::string> words = options_of_json(wanted, "hyperparameters", flags);
  const std::vector<std::string> own = typed_options(typed, flags);
  words.insert(words.end(), own.begin(), own.end());

  ChannelFiles found = files_of_channels(channels);
  std::string unused;
  for (const std::string& name : found.unused) unused += (unused.empty() ? "" : ", ") + name;
  if (!unused.empty()) std::cerr << "channels that are not used: " << unused << '\n';

  Job job{.arguments = {}, .files = std::move(found.files), .data = found.train, .dev = {}};
  if (job.files.train.size() == 1) job.data = job.files.train.front();
  if (!found.held_out.empty()) job.dev = job.files.validation.front();
  job.arguments = {"train", "--data=" + job.data};
  if (!job.dev.empty()) job.arguments.push_back("--dev=" + job.dev);
  if (const std::string folder = model_folder(); !folder.empty())
    job.arguments.push_back("--output=" + folder);
  if (const std::string folder = log_folder(); !folder.empty())
    job.arguments.push_back("--log-json=" + folder + "/log.jsonl");
  // A validation or test channel selects the best model, unless the job says otherwise.
  const auto says = [&](const std::string& option) {
    return names(words, "--" + option) ||
           std::ranges::any_of(wanted.items(),
                               [&](const auto& item) { return option_name(item.key()) == option; });
  };
  if ((!job.files.validation.empty() || !job.files.test.empty()) && !says("keep-best") &&
      !says("stream"))
    job.arguments.push_back("--keep-best");
  job.arguments.insert(job.arguments.end(), words.begin(), words.end());
  return job;
}

std::vector<std::string> arguments_of_server(std::vector<std::string> typed) {
  if (typed.empty() || typed.front() != "serve" || names(typed, "--model")) return typed;
  std::string folder = environment("SM_MODEL_DIR");
  if (folder.empty()) folder = root + "/model";
  if (!is_folder(folder)) return typed;
  // Several containers behind one endpoint have different ports.
  const std::string port = environment("SAGEMAKER_BIND_TO_PORT");
  const std::vector<std::string> defaults = {"--model=" + folder, "--host=0.0.0.0",
                                             "--port=" + (port.empty() ? "8080" : port)};
  typed.insert(typed.begin() + 1, defaults.begin(), defaults.end());
  return typed;
}

JobHosts hosts_of_job() {
  Json list;
  JobHosts hosts;
  const std::string file = settings_folder + "/resourceconfig.json";
  const std::string text = environment("SM_HOSTS");
  std::error_code problem;
  if (!text.empty()) {
    if (environment("SM_CURRENT_HOST").empty()) return {};
    list = Json::parse(text, nullptr, false);
    hosts.source = "SM_HOSTS=" + text;
  } else if (files::exists(file, problem)) {
    list = read_json_object(file, "resourceconfig.json").value("hosts", Json());
    hosts.source = file;
    if (list.is_null()) return {};
  }
  bool good = list.is_array();
  for (std::size_t i = 0; good && i < list.size(); ++i)
    if ((good = list[i].is_string())) hosts.names.push_back(list[i].get<std::string>());
  if (!good && !hosts.source.empty())
    throw UsageError(
        (text.empty() ? "hosts in " + file + " are " + list.dump() : "SM_HOSTS is " + text) +
        ", wanted a JSON list of names");
  return hosts;
}
