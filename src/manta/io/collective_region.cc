#include "manta/base/error_internal.h"
#include "manta/io/collective_layout_internal.h"
#include "manta/io/collective_region_internal.h"
#include "manta/io/shared_region_internal.h"

namespace manta {

size_t collective_region_bytes(int size) {
  auto ranks = static_cast<size_t>(size);
  size_t headers = (sizeof(RegionHeader) + ranks * sizeof(RankHeader) + 4095) / 4096 * 4096;
  return headers + 2 * ranks * kCollectiveSlotBytes;
}

UniqueFd create_shm_region(int size) {
  if (size < 1 || size > kMaxCollectiveRanks) {
    throw Error(ErrorKind::kInvalidArgument,
                str("a group of ", size, " ranks on one host: it must have 1 to ",
                    kMaxCollectiveRanks, "; use Gloo for more"));
  }
  auto region = SharedRegion::create("manta-collective", collective_region_bytes(size));
  auto* header = reinterpret_cast<RegionHeader*>(region.data());
  header->magic = kRegionMagic;
  header->version = kRegionVersion;
  header->size = size;
  return region.duplicate();
}

}  // namespace manta
