// The channels of a training job: folders with rows for training, validation and test.
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

// Recognises channels by their usual names. Errors UsageError (no training channel, two of one
// kind), text.folder (a channel without data).
ChannelFiles files_of_channels(const std::vector<Channel>& channels);
