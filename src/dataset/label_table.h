#pragma once

#include <cstdint>
#include <vector>

#include "src/dataset/labels.h"
#include "src/dataset/record_table.h"

namespace teller::dataset {

/// Writes /labels, a row a step, with /recorded and /hits ragged by it: the same in every file that
/// carries labels.
void WriteLabels(h5::Group& root, const std::vector<const StepLabel*>& labels,
                 StringInterner& strings);

/// Reads what WriteLabels wrote. Throws DataError where there are not `steps` of them, or a code is
/// unknown.
std::vector<StepLabel> ReadLabels(const TableReader& tables, uint64_t steps);

}  // namespace teller::dataset
