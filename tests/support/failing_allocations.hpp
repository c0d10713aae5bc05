#pragma once

namespace oncebox {

/// Makes the n-th allocation of this thread, counted from 0, and all that follow fail with
/// `std::bad_alloc`, for as long as the object lives. Works because this test program replaces the
/// global operator new.
class FailingAllocation {
 public:
  explicit FailingAllocation(int countdown);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;
};

}  // namespace oncebox
