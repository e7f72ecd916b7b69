# SPDX-License-Identifier: MIT
"""A disk whose power fails: it knows which writes were synced, and loses a random part of the others.

The disk is a SQLite file system in memory, made with apsw. ``Connection`` lets the engine's own SQL run on it: it gives
apsw's connection the few words of ``sqlite3`` that the store uses.
"""

import itertools

import apsw

SECTOR = 512
_numbers = itertools.count()


class File:
    """What was written, what of it is safe, and what was written since the last sync."""

    def __init__(self, content=b""):
        self.content = bytearray(content)
        self.safe = bytearray(content)
        self.unsafe = []

    def write(self, data, offset):
        put(self.content, data, offset)
        self.unsafe.append((data, offset))

    def truncate(self, size):
        del self.content[size:]
        self.unsafe.append((None, size))

    def sync(self):
        self.safe = bytearray(self.content)
        self.unsafe.clear()

    def survivors(self, chance, share):
        """Return what a power cut leaves: all that is safe, and a random share of the rest, sector by sector."""
        image = bytearray(self.safe)
        for data, offset in self.unsafe:
            if data is None:
                if chance.random() < share:
                    del image[offset:]
                continue
            for start in range(0, len(data), SECTOR):
                if chance.random() < share:
                    put(image, data[start : start + SECTOR], offset + start)
        return bytes(image)


def put(content, data, offset):
    """Write into a bytearray as into a file: a gap is zeros."""
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class Disk(apsw.VFS):
    """Files in memory. After ``cut_after`` operations, ``image`` is what a power cut then would have left.

    The program is not told: it goes on, on a disk that is not there any more. Whoever drives it looks at ``image``.
    """

    def __init__(self, files=None):
        self.name = f"power-cut-{next(_numbers)}"
        self.files = {name: File(content) for name, content in (files or {}).items()}
        self.image = None
        self.syncs = 0
        self._left = None
        self._chance = None
        super().__init__(self.name, "")

    def cut_after(self, operations, chance):
        """Have the power fail after so many more writes and syncs. Everything up to now is safe."""
        for file in self.files.values():
            file.sync()
        self._left, self._chance = operations, chance

    def tick(self):
        """Count an operation; the cut comes before it."""
        if self._left is None or self.image is not None:
            return
        self._left -= 1
        if self._left <= 0:
            share = self._chance.choice([0.0, 0.1, 0.5, 0.9, 1.0])
            self.image = {name: file.survivors(self._chance, share) for name, file in self.files.items()}

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        flags[1] = flags[0]
        key = name.filename() if isinstance(name, apsw.URIFilename) else name or f"temporary-{next(_numbers)}"
        return Handle(self, self.files.setdefault(key, File()))

    def xAccess(self, name, _flags):  # noqa: N802
        return name in self.files

    def xDelete(self, name, _sync):  # noqa: N802
        self.files.pop(name, None)

    def xFullPathname(self, name):  # noqa: N802
        return name.filename() if isinstance(name, apsw.URIFilename) else name


class Handle:
    """An open file, in the words of SQLite. One connection only, so there is nothing to lock."""

    def __init__(self, disk, file):
        self._disk = disk
        self._file = file

    def xRead(self, amount, offset):  # noqa: N802
        return bytes(self._file.content[offset : offset + amount])

    def xWrite(self, data, offset):  # noqa: N802
        self._disk.tick()
        self._file.write(bytes(data), offset)

    def xTruncate(self, size):  # noqa: N802
        self._disk.tick()
        self._file.truncate(size)

    def xSync(self, _flags):  # noqa: N802
        self._disk.tick()
        self._disk.syncs += 1
        self._file.sync()

    def xFileSize(self):  # noqa: N802
        return len(self._file.content)

    def xDeviceCharacteristics(self):  # noqa: N802
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE  # what SQLite assumes of every disk

    def xSectorSize(self):  # noqa: N802
        return SECTOR

    def xFileControl(self, _operation, _pointer):  # noqa: N802
        return False

    def xCheckReservedLock(self):  # noqa: N802
        return False

    def xLock(self, _level):  # noqa: N802
        """Nobody else is here."""

    def xUnlock(self, _level):  # noqa: N802
        """Nobody else is here."""

    def xClose(self):  # noqa: N802
        """Nothing to do."""


class Connection:
    """apsw's connection with the words of ``sqlite3`` that the engine uses."""

    def __init__(self, disk, synchronous):
        self._real = apsw.Connection("queue.db", vfs=disk.name)
        # Shared memory is beyond apsw's file systems; alone, SQLite does without.
        self._real.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._real.execute("PRAGMA journal_mode = WAL")
        self._real.execute(f"PRAGMA synchronous = {synchronous}")
        self._real.execute("PRAGMA wal_autocheckpoint = 60")  # often, since that is where it is dangerous

    @property
    def in_transaction(self):
        return self._real.in_transaction

    def execute(self, sql, values=()):
        return Result(self._real, sql, [values])

    def executemany(self, sql, values):
        return Result(self._real, sql, values)

    def close(self):
        self._real.close()


class Result:
    """A cursor that counts what it changed, without what triggers did."""

    def __init__(self, connection, sql, rows):
        self.rowcount = 0
        for values in rows:
            before = connection.total_changes()
            self._cursor = connection.execute(sql, values)
            self.rowcount += connection.changes() if connection.total_changes() > before else 0
        self.lastrowid = connection.last_insert_rowid()

    def fetchone(self):
        return self._cursor.fetchone()

    def fetchall(self):
        return self._cursor.fetchall()

    def __iter__(self):
        return iter(self._cursor)
