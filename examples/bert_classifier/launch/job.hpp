// The container of a hosting service: what a training job, and a server, find there instead of a
// command line. The service starts the image with the argument "train" or "serve" and a layout of
// folders below /opt/ml; its toolkit for Python sets variables SM_... as well, and starts the
// program with options alone.
#pragma once

#include <soma/text/data_files.hpp>

#include <string>
#include <vector>

struct Job {
  std::vector<std::string> arguments;  // the command line that it amounts to
  // The files of the channels, and --data and --dev among the arguments that stand for them.
  soma::text::DataFiles files;
  std::string data, dev;
};

// Whether what was typed means a training job: the argument "train" or options alone, without
// --data, where the service's folder of settings is or its toolkit has set channels.
bool is_training_job(const std::vector<std::string>& typed);
// The file that gets the reason when it fails.
std::string failure_file_of_job();
// What is typed wins over the hyperparameters, which win over what the job says. `flags`: options
// of train without a value. Names on standard error what it leaves out. Errors UsageError,
// file.read, text.folder.
Job read_job(const std::vector<std::string>& typed, const std::vector<std::string>& flags);

// Of "serve" without --model, where the container has a model; otherwise what was typed.
std::vector<std::string> arguments_of_server(std::vector<std::string> typed);

// The hosts that a job runs on, and who says so; none outside of jobs. Error UsageError.
struct JobHosts {
  std::vector<std::string> names;
  std::string source;
};
JobHosts hosts_of_job();
