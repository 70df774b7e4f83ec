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

// Tells whether the command line starts a training job: it has no --data, and it is the argument
// "train" or options alone where channels are (SM_CHANNEL_...), or the argument "train" where the
// service's folder of settings is.
bool is_training_job(const std::vector<std::string>& typed);
// The file that gets the reason when it fails.
std::string failure_file_of_job();
// The command line wins over the hyperparameters, and these win over the job's other settings.
// `flags` are the options of train without a value. Settings that are left out are named on
// standard error. Errors UsageError, file.read, text.folder.
Job read_job(const std::vector<std::string>& typed, const std::vector<std::string>& flags);

// The command line of a server in the service's container: "serve" without --model gets the
// container's model, host and port; other command lines come back as they are.
std::vector<std::string> arguments_of_server(std::vector<std::string> typed);

// The hosts that a job runs on, and who says so; none outside of jobs. Error UsageError.
struct JobHosts {
  std::vector<std::string> names;
  std::string source;
};
JobHosts hosts_of_job();
