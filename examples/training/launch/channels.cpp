#include "training/launch/channels.hpp"

#include "training/arguments.hpp"

#include <soma/base/error.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <system_error>

namespace {

namespace files = std::filesystem;
using soma::text::DataFiles;

constexpr std::array<std::string_view, 2> train_names = {"train", "training"},
                                          test_names = {"test", "testing"};
constexpr std::array<std::string_view, 6> held_out_names = {"val",  "validation", "valid",
                                                            "eval", "evaluation", "dev"};

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// Returns nullptr if there is none.
const Channel* find(const std::vector<Channel>& channels, std::span<const std::string_view> names) {
  const Channel* found = nullptr;
  for (const Channel& channel : channels) {
    if (!is_one_of(channel.name, names)) continue;
    if (found != nullptr)
      throw UsageError("the job has the channels " + found->name + " and " + channel.name +
                       ", wanted one of them");
    found = &channel;
  }
  return found;
}

// True for markers, checksums and hidden files, such as _SUCCESS, .part-00000.crc and _temporary/.
bool is_marker(const std::string& name) {
  return name.starts_with('.') || name.starts_with('_') || name.ends_with(".crc");
}

void add_files(const files::path& folder, int depth, std::vector<std::string>& found) {
  std::error_code problem;
  for (files::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    if (is_marker(at->path().filename().string())) continue;
    std::error_code ignored;  // for links to nothing
    if (at->is_directory(ignored) && depth > 0)
      add_files(at->path(), depth - 1, found);
    else if (at->is_regular_file(ignored))
      found.push_back(at->path().string());
  }
  if (problem)
    soma::fail(soma::error_id::text_folder, "train", "channel",
               soma::quoted(folder.string()) + " (" + problem.message() + ")",
               "a folder that can be listed");
}

// Keeps the good paths, unless none is good.
template <class Good>
void prefer(std::vector<std::string>& paths, const Good& good) {
  if (std::ranges::any_of(paths, good))
    std::erase_if(paths, [&](const std::string& path) { return !good(path); });
}

// The parts of one set of rows, in the order of their paths. A job that writes its rows in parts
// also leaves empty parts, and parts without an ending in their names.
std::vector<std::string> parts_of(const std::string& folder) {
  if (std::error_code problem; !files::is_directory(folder, problem)) return {folder};
  constexpr int deepest = 16;  // links may form a cycle
  std::vector<std::string> found;
  add_files(folder, deepest, found);
  std::ranges::sort(found);
  prefer(found, [](const std::string& path) {
    return soma::text::is_data_name(files::path(path).filename().string());
  });
  prefer(found, [](const std::string& path) {
    std::error_code problem;
    return files::file_size(path, problem) != 0 && !problem;
  });
  if (found.empty())
    soma::fail(soma::error_id::text_folder, "train", "channel",
               soma::quoted(folder) + ", without data", "files of rows");
  return found;
}

// True for a channel that is a whole data set, with one file or folder `train` among others.
bool is_data_set(const std::string& folder, const std::vector<std::string>& parts) {
  if (parts.size() < 2) return false;
  int count = 0;
  for (const std::string& name : soma::text::names_in("train", folder))
    count += name.substr(0, name.find('.')) == "train" ? 1 : 0;
  return count == 1;
}

}  // namespace

ChannelFiles files_of_channels(const std::vector<Channel>& channels) {
  const Channel* train = find(channels, train_names);
  const Channel* held_out = find(channels, held_out_names);
  const Channel* test = find(channels, test_names);
  ChannelFiles found;
  std::string names;
  for (const Channel& channel : channels) {
    names += (names.empty() ? "" : ", ") + channel.name;
    if (&channel != train && &channel != held_out && &channel != test)
      found.unused.push_back(channel.name);
  }
  if (train == nullptr)
    throw UsageError("the job has " + (names.empty() ? "no channels" : "the channels " + names) +
                     ", wanted one that is called train or training");
  found.train = train->folder;
  found.files.train = parts_of(train->folder);
  if (is_data_set(train->folder, found.files.train))
    found.files = soma::text::find_data_files(train->folder, "train");
  if (held_out != nullptr) {
    found.held_out = held_out->folder;
    found.files.validation = parts_of(held_out->folder);
  }
  if (test != nullptr) found.files.test = parts_of(test->folder);
  return found;
}
