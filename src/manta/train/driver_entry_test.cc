#include <gtest/gtest.h>

#include "manta/base/temporary_folder_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/train/driver_entry_internal.h"
#include "manta/train/file_internal.h"

namespace manta::train {
namespace {

TEST(DriverEntryTest, EachHasSecretsAndASocketOfItsOwn) {
  DriverEntry one = make_driver_entry("kind", "/folder"),
              other = make_driver_entry("kind", "/folder");
  EXPECT_TRUE(one.socket.starts_with(current_session_folder() + "/kind-")) << one.socket;
  EXPECT_NE(one.socket, other.socket);
  EXPECT_NE(one.token, other.token);
  EXPECT_NE(one.folder_mark, other.folder_mark);
  EXPECT_NE(one.folder_mark, one.token);
  EXPECT_EQ(one.folder, "/folder");
  EXPECT_EQ(one.host, "") << "nothing listens on the network of one machine";
}

// Another machine may have a folder of the same path, even one that was used in the same way.
TEST(DriverEntryTest, AFolderIsSeenByItsMark) {
  TemporaryFolder folder;
  DriverEntry entry = make_driver_entry("kind", folder.path());
  EXPECT_FALSE(sees_folder(entry));
  mark_folder(entry);
  EXPECT_TRUE(sees_folder(entry));
  DriverEntry other = make_driver_entry("kind", folder.path());
  EXPECT_FALSE(sees_folder(other));
  mark_folder(other);
  EXPECT_TRUE(sees_folder(other));
  EXPECT_FALSE(sees_folder(entry));
}

}  // namespace
}  // namespace manta::train
