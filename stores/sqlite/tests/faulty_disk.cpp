#include "faulty_disk.hpp"

#include <sqlite3.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <mutex>

namespace oncebox::sqlite {

namespace {

constexpr const char* kName = "oncebox-faulty-disk";
constexpr int kNever = -1;

std::atomic<int> countdown_to_fault = kNever;
std::atomic<FaultyDisk::Fault> fault_kind = FaultyDisk::Fault::io_error;
std::atomic<bool> fault_struck = false;

// Strikes once: the disk works again after it, as after a bad sector was moved.
bool strikes() {
  int left = countdown_to_fault.load();
  while (left >= 0) {
    if (countdown_to_fault.compare_exchange_weak(left, left - 1)) {
      if (left == 0) fault_struck = true;
      return left == 0;
    }
  }
  return false;
}

int code_for(int io_error) {
  return fault_kind == FaultyDisk::Fault::disk_full ? SQLITE_FULL : io_error;
}

struct File {
  sqlite3_file base;
  sqlite3_file* below;
};

sqlite3_file* below(sqlite3_file* file) { return reinterpret_cast<File*>(file)->below; }

int close_file(sqlite3_file* file) {
  sqlite3_file* const real = below(file);
  const int code = real->pMethods != nullptr ? real->pMethods->xClose(real) : SQLITE_OK;
  std::free(real);
  return code;
}
int read_file(sqlite3_file* file, void* to, int bytes, sqlite3_int64 offset) {
  return below(file)->pMethods->xRead(below(file), to, bytes, offset);
}
int write_file(sqlite3_file* file, const void* from, int bytes, sqlite3_int64 offset) {
  const bool counts = fault_kind != FaultyDisk::Fault::flush_error;
  if (counts && strikes()) return code_for(SQLITE_IOERR_WRITE);
  return below(file)->pMethods->xWrite(below(file), from, bytes, offset);
}
int truncate_file(sqlite3_file* file, sqlite3_int64 bytes) {
  return below(file)->pMethods->xTruncate(below(file), bytes);
}
int sync_file(sqlite3_file* file, int flags) {
  if (strikes()) return code_for(SQLITE_IOERR_FSYNC);
  return below(file)->pMethods->xSync(below(file), flags);
}
int file_size(sqlite3_file* file, sqlite3_int64* bytes) {
  return below(file)->pMethods->xFileSize(below(file), bytes);
}
int lock_file(sqlite3_file* file, int level) {
  return below(file)->pMethods->xLock(below(file), level);
}
int unlock_file(sqlite3_file* file, int level) {
  return below(file)->pMethods->xUnlock(below(file), level);
}
int check_reserved_lock(sqlite3_file* file, int* reserved) {
  return below(file)->pMethods->xCheckReservedLock(below(file), reserved);
}
int file_control(sqlite3_file* file, int operation, void* argument) {
  return below(file)->pMethods->xFileControl(below(file), operation, argument);
}
int sector_size(sqlite3_file* file) { return below(file)->pMethods->xSectorSize(below(file)); }
int device_characteristics(sqlite3_file* file) {
  return below(file)->pMethods->xDeviceCharacteristics(below(file));
}
int shm_map(sqlite3_file* file, int region, int bytes, int extend, void volatile** to) {
  return below(file)->pMethods->xShmMap(below(file), region, bytes, extend, to);
}
int shm_lock(sqlite3_file* file, int offset, int count, int flags) {
  return below(file)->pMethods->xShmLock(below(file), offset, count, flags);
}
void shm_barrier(sqlite3_file* file) { below(file)->pMethods->xShmBarrier(below(file)); }
int shm_unmap(sqlite3_file* file, int remove) {
  return below(file)->pMethods->xShmUnmap(below(file), remove);
}

constexpr sqlite3_io_methods kMethods{2,
                                      close_file,
                                      read_file,
                                      write_file,
                                      truncate_file,
                                      sync_file,
                                      file_size,
                                      lock_file,
                                      unlock_file,
                                      check_reserved_lock,
                                      file_control,
                                      sector_size,
                                      device_characteristics,
                                      shm_map,
                                      shm_lock,
                                      shm_barrier,
                                      shm_unmap,
                                      nullptr,
                                      nullptr};

int open_file(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  auto* const real_vfs = static_cast<sqlite3_vfs*>(vfs->pAppData);
  auto* const wrapper = reinterpret_cast<File*>(file);
  wrapper->base.pMethods = nullptr;
  wrapper->below =
      static_cast<sqlite3_file*>(std::calloc(1, static_cast<std::size_t>(real_vfs->szOsFile)));
  if (wrapper->below == nullptr) return SQLITE_NOMEM;
  const int code = real_vfs->xOpen(real_vfs, name, wrapper->below, flags, out_flags);
  if (code == SQLITE_OK) {
    wrapper->base.pMethods = &kMethods;
  } else {
    std::free(wrapper->below);
  }
  return code;
}

}  // namespace

std::string FaultyDisk::vfs() {
  static std::once_flag once;
  std::call_once(once, [] {
    static sqlite3_vfs layer = *sqlite3_vfs_find(nullptr);
    layer.pAppData = sqlite3_vfs_find(nullptr);
    layer.zName = kName;
    layer.szOsFile = sizeof(File);
    layer.pNext = nullptr;
    layer.xOpen = open_file;
    sqlite3_vfs_register(&layer, 0);
  });
  return kName;
}

FaultyDisk::FaultyDisk(int countdown, Fault fault) {
  fault_struck = false;
  fault_kind = fault;
  countdown_to_fault = countdown;
}

FaultyDisk::~FaultyDisk() { countdown_to_fault = kNever; }

bool FaultyDisk::struck() const noexcept { return fault_struck; }

}  // namespace oncebox::sqlite
