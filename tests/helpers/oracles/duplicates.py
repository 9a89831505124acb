"""Difference hashes, one value at a time."""


def difference_hash(image):
    """64 bits as a string, of an image [H, W, C] in nested loops: 1 where a cell is darker than the one to its left."""
    height, width = len(image), len(image[0])
    cells = [[cell(image, height, width, row, column) for column in range(9)] for row in range(8)]
    return "".join("1" if row[k + 1] < row[k] else "0" for row in cells for k in range(8))


def cell(image, height, width, row, column):
    """The mean grey of one of 8 × 9 equal cells; a pixel that is cut by an edge counts by its share."""
    total = 0.0
    for y in range(height):
        for x in range(width):
            down = min((row + 1) * height / 8, y + 1) - max(row * height / 8, y)
            across = min((column + 1) * width / 9, x + 1) - max(column * width / 9, x)
            if down > 0 and across > 0:
                total += down * across * sum(float(value) for value in image[y][x]) / len(image[y][x])
    return total / (height / 8 * width / 9)


def close_pairs(hashes, distance):
    """All pairs of hashes that differ in at most so many bits."""
    return {
        (one, other)
        for one in range(len(hashes))
        for other in range(one + 1, len(hashes))
        if bin(int(hashes[one]) ^ int(hashes[other])).count("1") <= distance
    }
