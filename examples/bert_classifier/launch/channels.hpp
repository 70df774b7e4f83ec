// The channels of a training job: folders with the rows for training, validation and test.
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

// Finds the channels by their usual names. Errors UsageError (no channel to train on, two channels
// of one kind), text.folder (a channel without data).
ChannelFiles files_of_channels(const std::vector<Channel>& channels);
