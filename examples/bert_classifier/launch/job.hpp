// Settings that a training job or a server finds in the container of a hosting service, instead of
// a command line. The service starts the image with the argument "train" or "serve" and with
// folders below /opt/ml. The service's Python toolkit also sets variables SM_... and starts the
// program with options only.
#pragma once

#include <soma/text/data_files.hpp>

#include <string>
#include <vector>

struct Job {
  std::vector<std::string> arguments;  // the equivalent command line
  // The files of the channels, and the values of --data and --dev in `arguments` that stand for
  // these files.
  soma::text::DataFiles files;
  std::string data, dev;
};

// True if the command line starts a training job: it is the argument "train" or options only, has
// no --data, and the container has channels (SM_CHANNEL_...) or the service's settings folder.
bool is_training_job(const std::vector<std::string>& typed);
// The file that receives the reason of a failure.
std::string failure_file_of_job();
// The command line overrides the hyperparameters, and the hyperparameters override the job's other
// settings. `flags` are the options of train without a value. Ignored settings are listed on
// standard error. Errors UsageError, file.read, text.folder.
Job read_job(const std::vector<std::string>& typed, const std::vector<std::string>& flags);

// Completes the command line of a server in the service's container: "serve" without --model gets
// the container's model, host and port. Other command lines are returned unchanged.
std::vector<std::string> arguments_of_server(std::vector<std::string> typed);

// The hosts of a job, and the source of their names; empty outside of jobs. Error UsageError.
struct JobHosts {
  std::vector<std::string> names;
  std::string source;
};
JobHosts hosts_of_job();
