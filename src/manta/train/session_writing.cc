// The files of a worker's checkpoints: written in the background, and sent if the driver does not
// see them.

#include <filesystem>

#include "manta/base/batch_work_internal.h"
#include "manta/base/error_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/train/session_internal.h"
#include "manta/train/staging_internal.h"

namespace manta::train {

void Session::write() {
  become_batch_work();
  while (true) {
    std::pair<int64_t, std::shared_ptr<CheckpointSource>> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || !to_write_.empty(); });
      if (closing_) return;  // the remaining files are not needed
      job = std::move(to_write_.front());
      to_write_.pop_front();
    }
    try {
      CheckpointFolder folder(staging(job.first), [this] { ++parts_written_; });
      job.second->write(folder);
      job.second.reset();
      if (!begin_.place.shares_folder) send_to_driver(job.first, folder);
      send(SendFiles{job.first, folder.files()});
    } catch (const Error& error) {
      fail_to_write(job.first, error.kind(), error.what());
    } catch (const std::exception& error) {
      fail_to_write(job.first, ErrorKind::kIo, error.what());
    } catch (...) {
      fail_to_write(job.first, ErrorKind::kUserCode,
                    "it threw something that is no std::exception");
    }
  }
}

std::string Session::staging(int64_t index) const {
  if (begin_.place.shares_folder)
    return make_staging_folder(begin_.run_folder, begin_.attempt, index, begin_.rank);
  return staging_folder(temporary_folder() + "/" + begin_.run_name, begin_.attempt, index,
                        begin_.rank);
}

void Session::send_to_driver(int64_t index, const CheckpointFolder& folder) {
  send_files(index, folder, [this](SendChunk chunk) { send_chunk(std::move(chunk)); });
  wait_for_chunks(0);
  std::filesystem::remove_all(folder.path());
}

// Waits if too many are on their way: the driver's memory and the connection hold only a limited
// number.
void Session::send_chunk(SendChunk chunk) {
  wait_for_chunks(kMostChunksInFlight - 1);
  {
    std::lock_guard lock(mutex_);
    ++chunks_in_flight_;
  }
  send(chunk);
}

// Waits until the driver has written all but `most` of them.
void Session::wait_for_chunks(int64_t most) {
  std::unique_lock lock(mutex_);
  while (chunks_in_flight_ > most) {
    bool moves = changed_.wait_for(lock, timeout(), [&, before = chunks_in_flight_] {
      return chunks_in_flight_ < before || driver_gone_ || closing_;
    });
    if (driver_gone_ || closing_)
      throw Error(ErrorKind::kWorkerLost, "the driver has ended this group, or has ended itself");
    if (moves) continue;
    throw Error(ErrorKind::kTimeout,
                str("the driver has not written a part of a checkpoint of rank ", begin_.rank,
                    " within ", timeout().count(), " ms: its disk is too slow, or raise the run's ",
                    "collective_timeout"));
  }
}

void Session::fail_to_write(int64_t index, ErrorKind kind, const std::string& why) {
  std::string message = str("writing the checkpoint of report ", index, ": ", why);
  {
    std::lock_guard lock(mutex_);
    write_error_ = Error(kind, message);
    changed_.notify_all();
  }
  try {
    send(SendFailure{kind, message, false});
  } catch (const std::exception&) {  // the driver has gone
  }
}

}  // namespace manta::train
