// The channels of a training job: folders with the rows to train on, to choose by, to measure by.
#pragma once

#include <soma/text/data_files.hpp>

#include <string>
#include <string_view>
#include <vector>

struct Channel {
  std::string name, folder;
};

struct ChannelFiles {
  std::string train, held_out;  // the folders; empty: no such channel
  soma::text::DataFiles files;
  std::vector<std::string> unused;  // names of the other channels
};

// By the names that people give them. Errors UsageError (none to train on, two of one kind),
// text.folder (no data in one).
ChannelFiles files_of_channels(const std::vector<Channel>& channels);
