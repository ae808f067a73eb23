#pragma once

#include <memory>
#include <string>
#include <vector>

namespace arrow::io {
class OutputStream;
}

namespace manta::data {

/// A file in an OutputFolder that has no name yet.
class OutputFile {
 public:
  virtual ~OutputFile() = default;  ///< Gives it up, unless it was published.
  virtual const std::shared_ptr<arrow::io::OutputStream>& stream() const = 0;
  /// Closes the stream; the file is there, with all its content. `on_disk`: and survives a power
  /// cut.
  virtual void publish(bool on_disk) = 0;
};

/// A folder for new files: of this machine, or at an address. Errors are without the writer's name.
class OutputFolder {
 public:
  virtual ~OutputFolder() = default;
  /// The files in it, and in folders below it, whose names end in one of these, as readers of the
  /// folder find them: "a.csv", "b/c.csv".
  virtual std::vector<std::string> existing(const char* extensions) const = 0;
  virtual std::unique_ptr<OutputFile> create(const std::string& name) = 0;
  virtual void remove(const std::string& name) = 0;
};

/// Makes a local folder if it is not there.
std::unique_ptr<OutputFolder> open_output_folder(const std::string& path);

}  // namespace manta::data
