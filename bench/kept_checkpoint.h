#pragma once

#include <manta/train/checkpoint.h>

#include <filesystem>
#include <string>

/// Copies a checkpoint of XGBoost to `folder`/checkpoint, and its model, for peers, to
/// `folder`/model.ubj. Replaces existing files.
inline void keep_checkpoint(const manta::Checkpoint& checkpoint, const std::string& folder) {
  namespace fs = std::filesystem;
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::copy(checkpoint.path(), folder + "/checkpoint", fs::copy_options::recursive);
  fs::copy_file(checkpoint.file("model.ubj"), folder + "/model.ubj");
}
inline manta::Checkpoint kept_checkpoint(const std::string& folder) {
  return manta::Checkpoint::from_directory(folder + "/checkpoint");
}
